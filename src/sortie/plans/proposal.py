"""A plan that an agent proposes: checked like any plan, and for what only a person may decide.

Who works, what may be spent, and which files are handed out is not for a proposal to choose: it has the agents that
it was given, no budget, no workspace, and inputs from below the plan's directory alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..protocol.safefiles import UnsafeFile, explain, read_bounded
from ..workflow.document import Tree, decode, read_tree
from ..workflow.problems import Problem, Problems, listed
from .load import EXTENT, examine
from .plan import Plan, TaskAgent
from .reading import Reading

NAME = "plan.yaml"
LARGEST_PROPOSAL = 1024 * 1024
MOST_TASKS = 100

_OF_PEOPLE = {
    "budget": "what may be spent is decided by the person who runs it; leave this out",
    "workspace": "where it runs is decided by the person who runs it; leave this out",
}


def read_proposal(directory: int) -> tuple[bytes, str]:
    """What an agent left in its directory, and what is wrong with that before it is even looked at."""
    try:
        content = read_bounded(directory, NAME, LARGEST_PROPOSAL + 1)
    except FileNotFoundError:
        return b"", f"there is no {NAME}; write it to your current directory"
    except UnsafeFile as error:
        return b"", f"{NAME} cannot be read ({explain(error)}); write a regular file"
    except OSError as error:
        return b"", f"{NAME} cannot be read ({explain(error)})"
    if len(content) > LARGEST_PROPOSAL:
        return content[:LARGEST_PROPOSAL], f"{NAME} is larger than {LARGEST_PROPOSAL // 1024} KiB; propose less"
    return content, "" if content.strip() else f"{NAME} is empty; write the plan into it"


def examine_proposal(content: bytes, path: Path, agents: Sequence[TaskAgent]) -> tuple[Plan | None, list[Problem]]:
    """As `examine`, of what is to be written to `path`, with no other agents than these.

    Where a path leads out of the plan's directory nothing else is looked at, because that would follow it.
    """
    problems = Problems(str(path))
    text = decode(content, problems)
    tree = read_tree(text, problems, EXTENT) if text is not None else None
    if tree is None:
        return None, problems.in_order()
    reading = Reading(tree, problems)
    if _leaves_the_directory(tree, path.absolute().parent, reading):
        return None, problems.in_order()
    _check_agents(tree, agents, reading)
    if len(_tasks(tree)) > MOST_TASKS:
        reading.refuse("tasks", f"must be at most {MOST_TASKS} tasks; put together what one agent can do alone")
    for key, complaint in _OF_PEOPLE.items():
        if key in tree.values:
            reading.refuse(key, complaint)
    plan, found = examine(path, content)
    for task in plan.tasks if plan and not problems.in_order() else ():
        # Whatever was written, and however: this is what would be started.
        if task.agent not in agents:
            problems.error("must have an agent that was asked for", key=f"tasks.{task.name}.agent", line=task.line)
    for problem in found:
        problems.add(problem.severity, problem.message, key=problem.key, line=problem.line)
    found = problems.in_order()
    return (None if any(problem.severity == "error" for problem in found) else plan), found


def as_written(agent: TaskAgent) -> dict[str, str]:
    """The map that stands for it in a plan file."""
    given = {"kind": agent.kind, "command": agent.command, "model": agent.model}
    return {key: value for key, value in given.items() if value}


def _check_agents(tree: Tree, agents: Sequence[TaskAgent], reading: Reading) -> None:
    allowed = [as_written(agent) for agent in agents]
    form = listed([f"{{{', '.join(f'{key}: {value}' for key, value in one.items())}}}" for one in allowed])
    complaint = f"must be exactly {form}: only the agents that were asked for may work"
    usual = _map(tree.values.get("defaults")).get("agent")
    if usual is not None and usual not in allowed:
        reading.refuse("defaults.agent", complaint)
    for at, task in enumerate(_tasks(tree)):
        own = _map(task).get("agent")
        if own is not None and own not in allowed:
            reading.refuse(f"tasks.{at}.agent", complaint)
        elif own is None and usual is None:
            reading.refuse(f"tasks.{at}", f"has no agent; give one to all below defaults: agent: {form}")


def _leaves_the_directory(tree: Tree, home: Path, reading: Reading) -> bool:
    found = False
    for place, value in _paths(tree):
        if complaint := _why_outside(value, home):
            reading.refuse(place, complaint)
            found = True
    # That it may not be given at all is said with the rest, unless it leads away.
    workspace = tree.values.get("workspace")
    if isinstance(workspace, str) and _why_outside(workspace, home):
        reading.refuse("workspace", _OF_PEOPLE["workspace"])
        found = True
    return found


def _paths(tree: Tree) -> Iterator[tuple[str, str]]:
    """Every path of a file or directory that the plan would read, with its place."""
    sections = [("defaults", _map(tree.values.get("defaults")))]
    sections += [(f"tasks.{at}", _map(task)) for at, task in enumerate(_tasks(tree))]
    for place, section in sections:
        file = _map(section.get("skill")).get("file")
        if isinstance(file, str):
            yield f"{place}.skill.file", file
        inputs = section.get("inputs")
        for at, given in enumerate(inputs if isinstance(inputs, list) else ()):
            path = given if isinstance(given, str) else _map(given).get("path")
            if isinstance(path, str):
                yield f"{place}.inputs.{at}", path


def _why_outside(value: str, home: Path) -> str:
    """Hidden files hold keys more often than anything that a task needs. A link may lead anywhere."""
    parts = value.split("/")
    shown = value[:100]
    if value.startswith("/") or ".." in parts:
        return f"{shown} is not below the directory of the plan; name files by their path from there"
    if any(part.startswith(".") and part != "." for part in parts):
        return f"{shown} is hidden; a proposal cannot hand out hidden files"
    try:
        real, root = os.path.realpath(home / value), os.path.realpath(home)
    except (OSError, ValueError):
        return f"{shown} is not a possible path"
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        return f"{shown} is a link that leads out of the directory of the plan; name files in it"
    return ""


def _tasks(tree: Tree) -> list[Any]:
    tasks = tree.values.get("tasks")
    return tasks if isinstance(tasks, list) else []


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
