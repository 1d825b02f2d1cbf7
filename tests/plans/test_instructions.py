"""What an agent is given to read has the form of the protocol, whatever texts the plan holds."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sortie.plans.instructions import (
    SECTIONS,
    dependencies_json,
    instructions_md,
    lint_instructions,
    skill_md,
)
from sortie.plans.load import load_plan
from sortie.plans.markdown import as_body, as_entry, code, placeholders
from sortie.plans.plan import Dependency, Plan, Task, TaskInput, TaskOutput, WaitFor
from sortie.plans.skills import whole

from .sample import FULL, furnish, write

HEADINGS = ["# Task: NAME", *(f"## {name}" for name in SECTIONS)]


@pytest.fixture
def full(tmp_path):
    furnish(tmp_path)
    return load_plan(write(tmp_path, FULL))


def plan_of(*tasks: Task, goal: str = "") -> Plan:
    return Plan(name="p", path=Path("/p.yaml"), root=Path("/p.work"), tasks=tasks, goal=goal)


def headings(text: str) -> list[str]:
    """As a Markdown reader finds them, inside of quotes and lists left out."""
    tokens = MarkdownIt().parse(text)
    return [
        f"{opening.markup} {inline.content}"
        for opening, inline in pairwise(tokens)
        if opening.type == "heading_open" and opening.level == 0
    ]


def test_instructions_have_the_form_of_the_protocol(full):
    """BOX-03"""
    assert (
        instructions_md(full, full.by_name["collect"], {"all/data": "a directory of 3 GB at /srv/data"})
        == """\
# Task: collect

## Objective

Find out what changed.

## Context

This task is part of a plan. Its goal:

Notes that users understand.

There are many changes.

## Inputs Provided

All of it is below `inbox/`, which is read-only.

- `source.csv`
- `all/data` - Everything (by reference: `all/data.ref.json`: a directory of 3 GB at /srv/data)

## Requirements

1. Be complete
2. Be right

## Success Criteria

- [ ] Every change is listed

## Constraints

- No network
- One hour

## Output Expectations

- Place main deliverable in `outbox/findings.md` - What changed.
- Place at least one file in the directory `outbox/data/`
- Include summary in `outbox/summary.md`
"""
    )


def test_what_comes_from_other_tasks_is_listed_with_its_place_and_source(full):
    """BOX-03, BOX-08"""
    text = instructions_md(full, full.by_name["write"], {"collect/data/big.bin": "12 MB at /x"})
    assert (
        text.partition("## Inputs Provided\n")[2].partition("\n## ")[0]
        == """
All of it is below `inbox/`, which is read-only.

- `collect/findings.md` - What changed (from task `collect`, if it was completed)
- `collect/data/` - from task `collect`, if it was completed
- `collect/summary.md` - from task `collect`, if it was completed
- `collect/data/big.bin` - (by reference: `collect/data/big.bin.ref.json`: 12 MB at /x)
"""
    )


def test_an_empty_section_says_so():
    """BOX-03"""
    task = Task(name="a", objective="b", success_criteria=("c",), outputs=(TaskOutput(path="outbox/d"),))
    text = instructions_md(plan_of(task), task, {})
    for name in ("Context", "Inputs Provided", "Requirements", "Constraints"):
        assert f"## {name}\n\nNone.\n" in text
    assert lint_instructions(text) == []


def test_every_generated_one_passes_its_own_check(full):
    """BOX-03, TBX-18"""
    for task in full.tasks:
        assert lint_instructions(instructions_md(full, task, {})) == []


def test_dependencies_are_exactly_those_of_the_document():
    """BOX-08"""
    collector = Task(
        name="data-collector",
        objective="x",
        outputs=(TaskOutput(path="outbox/data.json"), TaskOutput(path="outbox/sources.md")),
    )
    task = Task(
        name="reporter",
        objective="x",
        depends_on=(
            Dependency(
                task="data-collector",
                outputs=("outbox/data.json", "outbox/sources.md"),
                copy_to="inbox/source_data/",
            ),
        ),
        wait_for=(WaitFor(task="schema-validator"),),
    )
    assert dependencies_json(task, plan_of(collector, Task(name="schema-validator", objective="x"), task)) == {
        "depends_on": [
            {
                "agent": "data-collector",
                "outputs": ["outbox/data.json", "outbox/sources.md"],
                "copy_to": "inbox/source_data/",
            }
        ],
        "wait_for": ["data-collector", "schema-validator"],
    }


def test_dependencies_that_were_never_completed_are_completed_here():
    one = Task(name="one", objective="x", outputs=(TaskOutput(path="outbox/a/"),))
    two = Task(name="two", objective="x", depends_on=(Dependency(task="one"),))
    assert dependencies_json(two, plan_of(one, two))["depends_on"] == [
        {"agent": "one", "outputs": ["outbox/a/", "outbox/summary.md"], "copy_to": "inbox/one/"}
    ]
    assert dependencies_json(one, plan_of(one, two)) == {"depends_on": [], "wait_for": []}


def test_a_task_without_a_skill_still_knows_the_protocol():
    """BOX-01"""
    assert skill_md(Task(name="a", objective="b")) == whole("")
    assert skill_md(Task(name="a", objective="b", skill="# X\n")) == "# X\n"


# Whatever could begin a heading, a fence, HTML, a quote or a list, and every character that ends a line somewhere.
MARKS = [
    *(
        "# ",
        "## Objective",
        "# Task: x",
        "```",
        "~~~",
        "---",
        "===",
        "<!--",
        "<script>",
        "-->",
        "> ",
        "- ",
        "1. ",
        "* ",
    ),
    *("    ", "\t", " ", "`", "[a]: b", "\\", "text", "<a>", "|"),
]
ENDS = ["\n", "\n\n", "\r", "\x0b", "\x0c", "\x85", "\u2028"]
wild = st.lists(st.sampled_from([*MARKS, *ENDS]), max_size=14).map("".join)


@given(goal=wild, text=wild, entries=st.lists(wild, max_size=3), name=st.text("a`b~# ", min_size=1, max_size=8))
def test_no_text_of_a_plan_breaks_the_structure(goal, text, entries, name):
    """BOX-03, TBX-18"""
    task = Task(
        name="NAME",
        objective=text,
        context=text,
        inputs=(TaskInput(path="/x", name=name, description=text),),
        requirements=tuple(entries),
        success_criteria=("It is done", *entries),
        constraints=tuple(entries),
        outputs=(TaskOutput(path=f"outbox/{name}", description=text),),
    )
    written = instructions_md(plan_of(task, goal=goal), task, {name: text})
    assert headings(written) == HEADINGS
    assert [line for line in written.split("\n") if line.lstrip().startswith("#")] == HEADINGS
    assert lint_instructions(written) == []
    assert written.splitlines() == written.split("\n")[:-1]


def test_a_text_with_structure_of_its_own_is_quoted_word_for_word():
    text = "Run this:\n\n```sh\n# first\nmake\n```\n"
    assert as_body(text) == "> Run this:\n>\n> ```sh\n> # first\n> make\n> ```"
    assert as_body("Two\n\n- plain\n- paragraphs\n") == "Two\n\n- plain\n- paragraphs"
    assert as_entry("1. ", "a\nb") == "1. > a\n   > b"


@given(st.text("`a", min_size=1))
def test_code_is_shown_as_it_is(text):
    (inline,) = [token for token in MarkdownIt().parse(code(text)) if token.type == "inline"]
    assert inline.children is not None
    assert [(child.type, child.content) for child in inline.children] == [("code_inline", text)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("## Context\n", ""), "one heading `## Context`, and has 0"),
        (lambda text: text.replace("# Task: write\n", ""), "one heading `# Task: NAME`, and has 0"),
        (lambda text: text + "\n## Objective\n", "one heading `## Objective`, and has 2"),
        (lambda text: text.replace("- [ ] It", "- It"), "must have a success criterion"),
        (lambda text: text.replace("Write it", "{INSERT_OBJECTIVE}"), "placeholder {INSERT_OBJECTIVE}"),
        (
            lambda text: re.sub(r"(## Context.*?)(## Inputs.*?)(?=## Req)", r"\2\1", text, flags=re.S),
            "stand in this order",
        ),
    ],
)
def test_malformed_instructions_are_found_out(full, change, said):
    """TBX-18"""
    text = instructions_md(full, full.by_name["write"], {})
    assert lint_instructions("\ufeff" + text.replace("\n", "\r\n")) == []
    (problem,) = lint_instructions(change(text))
    assert said in problem


def test_the_protocols_own_template_is_full_of_placeholders():
    """TBX-18"""
    document = "# Task: {TASK_NAME}\n{Clear statement of what needs to be accomplished}\n`outbox/{filename}`"
    assert sorted(placeholders(document)) == [
        "{Clear statement of what needs to be accomplished}",
        "{TASK_NAME}",
        "{filename}",
    ]
    assert placeholders("${HOME} {x} `{NAME}` {} {AB} ```\n{NAME}\n```") == []
