"""The first plan of a person: a goal read from a file, whatever text it holds, and a skeleton to fill in.

A skeleton cannot be run by mistake: its placeholders are mistakes until somebody wrote what belongs there.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import ConfigurationError
from ..workflow.document import decode, read_file
from ..workflow.problems import Problems
from .shape import is_name
from .skills import TEMPLATES

SCHEMA_LINE = "# yaml-language-server: $schema=plan.schema.json"
# Every agent of the plan reads it. What is longer belongs into a file that the tasks are given.
LONGEST_GOAL = 8_000

_NOT_FOR_TEXTS = re.compile("[^\n\u0020-\u007e\u00a0-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def read_goal(path: Path) -> bytes:
    """What the file holds, as it is; raises `ConfigurationError` where that is no text."""
    problems = Problems(str(path))
    content = read_file(path, problems)
    text = decode(content, problems) if content is not None else None
    if text is not None and not text.strip():
        problems.error("it is empty; write into it what the plan is for")
    if found := problems.in_order():
        raise ConfigurationError(str(found[0]), problems=tuple(map(str, found)))
    assert content is not None
    return content


def goal_of(content: bytes, source: str) -> str:
    """The text of a goal as a plan can hold it. Of a long one the beginning, with a word of where the rest is."""
    text = content.decode("utf-8-sig").expandtabs(4)
    lines = [_NOT_FOR_TEXTS.sub("", line).rstrip() for line in text.splitlines()]
    text = "\n".join(lines).strip("\n")
    if len(text) <= LONGEST_GOAL:
        return text
    return f"{text[:LONGEST_GOAL].rstrip()}\n[The rest is in {source}.]"


def name_for(path: Path) -> str:
    """The name of a plan in this file, as near to that of the file as is possible."""
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:64]
    return name if is_name(name) else "plan"


def skeleton(path: Path, goal: str) -> str:
    """The text of a plan for this goal, to be written to `path`."""
    return _SKELETON.format(
        schema_line=SCHEMA_LINE,
        file=_in_a_comment(path.name),
        name=name_for(path),
        goal=_as_yaml(goal),
        skills=", ".join(TEMPLATES),
    )


def _in_a_comment(text: str) -> str:
    return _NOT_FOR_TEXTS.sub("?", text).replace("\n", "?")


def _as_yaml(goal: str) -> str:
    """With its key; as a block of lines wherever YAML allows that."""
    import yaml

    text = yaml.ScalarNode("tag:yaml.org,2002:str", goal, style="|")
    key = yaml.ScalarNode("tag:yaml.org,2002:str", "goal")
    written: str = yaml.serialize(
        yaml.MappingNode("tag:yaml.org,2002:map", [(key, text)]), Dumper=yaml.SafeDumper, allow_unicode=True
    )
    return written.rstrip("\n")


# Doubled braces are single ones in the file.
_SKELETON = """\
{schema_line}
#
# A plan: tasks for agents. Each task has a folder of its own with an inbox (what it is given) and an outbox
# (what it delivers), and starts when all that it waits for is completed.
#
# Write what belongs there in the place of every {{PLACEHOLDER}}, and change, add and remove tasks as you like:
#   sortie plan check {file}     names what is still missing
#   sortie plan graph {file}     draws who waits for whom
#   sortie plan run {file}       runs it

name: {name}

# Every agent reads it.
{goal}

max_parallel: 4             # how many tasks at the same time
# budget: {{usd: 20}}          # the most that all tasks may use together

defaults:                   # for every task that does not say otherwise
  agent:
    kind: claude-code       # or codex, gemini, command, ...: see docs/agents.md
    # model: ...

tasks:
  - name: research
    skill: research         # {skills};
                            # or {{file: my-skill.md}}, or {{text: ...}}
    objective: |
      {{WHAT_HAS_TO_BE_FOUND_OUT}}
    # inputs: [notes.md]    # files beside this one, copied to its inbox
    success_criteria:       # at least one, each of which can be ticked
      - "{{HOW_ONE_SEES_THAT_IT_IS_FOUND_OUT}}"
    outputs:                # at least one file, besides summary.md, which every task writes
      - findings.md

  - name: make
    skill: code
    objective: |
      {{WHAT_HAS_TO_BE_MADE}}
    depends_on:             # waits for it; its findings.md is copied to inbox/research/
      - {{task: research, outputs: [findings.md]}}
    requirements:
      - "{{WHAT_IT_HAS_TO_KEEP_TO}}"
    success_criteria:
      - "{{HOW_ONE_SEES_THAT_IT_IS_MADE}}"
    outputs:
      - result/             # a directory with at least one file

  - name: review
    skill: review
    objective: |
      {{WHAT_THE_REVIEW_HAS_TO_LOOK_AT}}
    depends_on:
      - make
    success_criteria:
      - "{{WHEN_THE_RESULT_IS_GOOD_ENOUGH}}"
    outputs:
      - feedback.md
    when_failed: escalate   # ask a person instead of failing
"""
