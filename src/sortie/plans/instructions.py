"""What an agent is given to read: SKILL.md, `inbox/instructions.md` and `inbox/dependencies.json`, as the protocol
has them. Pure: texts from the facts of a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .handover import complete, landing
from .markdown import as_body, as_entry, code, one_line, placeholders
from .plan import SUMMARY, Dependency, Plan, Task
from .skills import whole

TITLE = "# Task:"
SECTIONS = (
    "Objective",
    "Context",
    "Inputs Provided",
    "Requirements",
    "Success Criteria",
    "Constraints",
    "Output Expectations",
)
NOTHING = "None."

_HEADING = re.compile(r"^ {0,3}(#{1,2})[ \t]+(.*)$", re.M)
_CRITERION = re.compile(r"^- \[[ xX]\] \S", re.M)


def skill_md(task: Task) -> str:
    return task.skill or whole("")


def instructions_md(plan: Plan, task: Task, references: Mapping[str, str]) -> str:
    """`references` has what is handed over by reference: its path below the inbox, and what to tell of it."""
    contents = {
        "Objective": as_body(task.objective),
        "Context": _paragraphs(_goal(plan), as_body(task.context)),
        "Inputs Provided": _inputs(plan, task, references),
        "Requirements": _numbered(task.requirements),
        "Success Criteria": "\n".join(f"- [ ] {one_line(each)}" for each in task.success_criteria),
        "Constraints": "\n".join(as_entry("- ", each) for each in task.constraints),
        "Output Expectations": "\n".join(_expectations(task)),
    }
    sections = (f"## {name}\n\n{contents[name] or NOTHING}\n" for name in SECTIONS)
    return "\n".join((f"{TITLE} {task.name}\n", *sections))


def dependencies_json(task: Task, plan: Plan) -> dict[str, Any]:
    """With all tasks that are waited for in `wait_for`, those that hand something on included."""
    edges = [complete(edge, plan.by_name[edge.task]) for edge in task.depends_on]
    return {
        "depends_on": [
            {"agent": edge.task, "outputs": list(edge.outputs), "copy_to": edge.copy_to} for edge in edges
        ],
        "wait_for": list(task.waits_for),
    }


def lint_instructions(text: str) -> list[str]:
    """What is wrong with an instructions.md: headings missing, twice or in another order, no success criterion, or
    a placeholder that was never filled in."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = [(len(hashes), name.rstrip(" \t#")) for hashes, name in _HEADING.findall(text)]
    titles = [name for level, name in found if level == 1 and name.startswith("Task:")]
    problems = []
    if len(titles) != 1 or not titles[0].removeprefix("Task:").strip():
        problems.append(f"It must have one heading `{TITLE} NAME`, and has {len(titles)}.")
    headings = [name for level, name in found if level == 2 and name in SECTIONS]
    for name in SECTIONS:
        if headings.count(name) != 1:
            problems.append(f"It must have one heading `## {name}`, and has {headings.count(name)}.")
    if not problems and headings != list(SECTIONS):
        problems.append(f"Its headings must stand in this order: {', '.join(SECTIONS)}.")
    if not problems and not _CRITERION.search(_section(text, "Success Criteria")):
        problems.append("It must have a success criterion: a line `- [ ] ...` below `## Success Criteria`.")
    problems += [f"It still holds the placeholder {each}: write what belongs there." for each in placeholders(text)]
    return problems


def _section(text: str, name: str) -> str:
    """From its heading to the next one."""
    places = [(heading.start(), heading[2].rstrip(" \t#")) for heading in _HEADING.finditer(text)]
    (start,) = (at for at, found in places if found == name)
    return text[start : min((at for at, _ in places if at > start), default=len(text))]


def _goal(plan: Plan) -> str:
    return _paragraphs("This task is part of a plan. Its goal:", as_body(plan.goal)) if plan.goal else ""


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


def _numbered(texts: Iterable[str]) -> str:
    return "\n".join(as_entry(f"{number}. ", text) for number, text in enumerate(texts, 1))


def _inputs(plan: Plan, task: Task, references: Mapping[str, str]) -> str:
    told = dict(references)
    lines = [_line(each.name, each.description, told.pop(each.name, "")) for each in task.inputs]
    for edge in task.depends_on:
        lines += _received(plan.by_name[edge.task], edge, told)
    # Large files deep inside of what was listed as a directory.
    lines += [_line(name, "", text) for name, text in sorted(told.items())]
    return _paragraphs("All of it is below `inbox/`, which is read-only.", "\n".join(lines)) if lines else ""


def _received(giver: Task, edge: Dependency, told: dict[str, str]) -> Iterator[str]:
    edge = complete(edge, giver)
    descriptions = {output.path: output.description for output in giver.outputs}
    source = f"from task {code(giver.name)}"
    if edge.on_failure == "continue":
        source += ", if it was completed"
    for output in edge.outputs:
        name = landing(edge, output).removeprefix("inbox/")
        description = one_line(descriptions.get(output, "")).rstrip(".")
        yield _line(name, f"{description} ({source})" if description else source, told.pop(name, ""))


def _line(name: str, description: str, reference: str) -> str:
    if reference:
        note = f"(by reference: {code(f'{name}.ref.json')}: {one_line(reference)})"
        description = f"{description} {note}" if description else note
    return f"- {code(name)} - {one_line(description)}" if description else f"- {code(name)}"


def _expectations(task: Task) -> Iterator[str]:
    order = "Place main deliverable in"
    for output in task.outputs:
        if output.path == SUMMARY:
            continue
        what = "Place at least one file in the directory" if output.path.endswith("/") else order
        description = f" - {one_line(output.description)}" if output.description else ""
        yield f"- {what} {code(output.path)}{description}"
        order = "Place further deliverable in"
    yield f"- Include summary in {code(SUMMARY)}"
