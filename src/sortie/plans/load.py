"""The way in: a plan file to a `Plan`, or every mistake it has at once, each with its line."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from ..core.model import Limits
from ..errors import ConfigurationError
from ..workflow.document import Extent, decode, read_file, read_tree
from ..workflow.fields import Unfit
from ..workflow.problems import Problem, Problems
from .check import check
from .handover import complete
from .keys import BUDGET, PLAN, TURNS_OF_COMMANDS
from .markdown import placeholders
from .plan import Dependency, Plan, Task, TaskInput, TaskOutput, WaitFor
from .reading import Draft, Item, Reading
from .shape import below, is_name
from .skills import template, whole
from .task_agents import TaskAgents

LARGEST_FILE = 16 * 1024 * 1024
# Of 10,000 tasks, a hundred for each.
EXTENT = Extent(noun="the plan", key="tasks", first_line=1, most_values=1_000_000)
SUFFIX = ".work"


def load_plan(path: Path) -> Plan:
    """The plan; raises `ConfigurationError` with one line for each problem."""
    plan, problems = examine(path)
    if plan is not None:
        return plan
    first, *others = [str(problem) for problem in problems if problem.severity == "error"]
    count = f"{path} has {len(others) + 1} problems; the first is: " if others else ""
    raise ConfigurationError(count + first, problems=(first, *others))


def examine(path: Path, content: bytes | None = None, *, to_run: bool = True) -> tuple[Plan | None, list[Problem]]:
    """The plan, None where there are errors, and everything that was found; never raises for what is wrong with
    the file. `content` is what would stand there, where it does not yet. A plan that is not `to_run` may lack its
    inputs."""
    problems = Problems(str(path))
    with _without_collecting():
        plan = _read(path, problems, content, to_run=to_run)
    found = problems.in_order()
    return (None if any(problem.severity == "error" for problem in found) else plan), found


def version_of(path: Path) -> tuple[int, int, int] | None:
    """As in `Plan.version`; None where there is no file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Nothing here becomes garbage that has to be looked for; looking takes longer than all the rest."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(path: Path, problems: Problems, content: bytes | None, *, to_run: bool) -> Plan | None:
    version = version_of(path)  # before it is read: what is written meanwhile is another one
    if content is None:
        content = read_file(path, problems, largest=LARGEST_FILE)
    text = decode(content, problems) if content is not None else None
    tree = read_tree(text, problems, EXTENT) if text is not None else None
    if tree is None:
        return None
    reading = Reading(tree, problems)
    item = reading.section(PLAN, tree.values, "")
    assert item is not None, "the values of a tree are a map"
    path = path.absolute()
    drafts = Drafting(item.values.get("defaults"), path.parent, reading).drafts(item.values.get("tasks", ()))
    plan = Plan(
        name=item.values.get("name") or path.stem,
        path=path,
        root=path.parent / item.values.get("root", path.stem + SUFFIX),
        tasks=tuple(draft.task for draft in drafts),
        goal=item.values.get("goal", ""),
        max_parallel=item.values.get("max_parallel", 4),
        budget=_limits(asdict(BUDGET), item.values.get("budget")),
        worklog=_beside(path, item.values.get("worklog")),
        mailbox=_beside(path, item.values.get("mailbox")),
        version=version,
    )
    if not is_name(plan.name) and "name" not in item.refused:
        reading.refuse("name", f"is missing: the name of the file, {path.stem!r}, does not fit; add one")
    check(plan, drafts, reading, to_run=to_run)
    return plan


def _beside(path: Path, given: str | None) -> Path | None:
    return path.parent / given if given else None


def _limits(usual: dict[str, Any], given: Item | None) -> Limits:
    return Limits(**{**usual, **(given.values if given else {})})


class Drafting:
    """Makes tasks of what was read, defaults filled in, as far as each can be made."""

    def __init__(self, defaults: Item | None, base: Path, reading: Reading) -> None:
        self._defaults = dict(defaults.values) if defaults else {}
        self._on_failure = self._defaults.pop("on_failure", "block")
        self._agents = TaskAgents(self._defaults.pop("agent", None), base, reading)
        self._limits: Item | None = self._defaults.pop("limits", None)
        self._skills: dict[tuple[str, str], tuple[str, list[str]]] = {}
        self._base = base
        self._reading = reading
        # Also where every task has one of its own: a mistake in it is found.
        self._skill(self._defaults.get("skill"))

    def drafts(self, items: list[Item]) -> list[Draft]:
        drafts = [self._draft(item) for item in items]
        tasks = {draft.task.name: draft.task for draft in drafts}
        return [
            replace(draft, task=replace(draft.task, depends_on=_completed(draft.task, tasks))) for draft in drafts
        ]

    def _draft(self, item: Item) -> Draft:
        given = dict(item.values)
        values = {**self._defaults, **given, "line": self._reading.line_of(item.path)}
        values["constraints"] = (*self._defaults.get("constraints", ()), *given.get("constraints", ()))
        values["agent"] = agent = self._agents.of(given.get("agent"))
        values["skill"] = self._skill(values.get("skill"))
        values["limits"] = _limits(self._limits.values if self._limits else {}, given.get("limits"))
        if agent.kind == "command":
            values.setdefault("max_turns", TURNS_OF_COMMANDS)
        places: dict[str, tuple[str, ...]] = {}
        for field, build in (
            ("inputs", self._input),
            ("outputs", self._output),
            ("depends_on", self._dependency),
            ("wait_for", self._wait),
        ):
            built = [(inner.path, made) for inner in given.get(field, ()) if (made := build(inner)) is not None]
            values[field] = tuple(made for _, made in built)
            places[field] = tuple(place for place, _ in built)
        # Others may name it by a name that does not fit: that is one mistake, not several.
        values["name"] = self._reading.task_name(item.path)
        task = Task(**{"objective": "", **values})
        return Draft(task=task, path=item.path, places=places, refused=item.refused)

    def _skill(self, item: Item | None) -> str:
        """The whole text; what is wrong with it is noted for every task that has it."""
        ((form, value),) = item.values.items() if item and len(item.values) == 1 else [("text", "")]
        if (form, value) not in self._skills:
            self._skills[form, value] = self._skill_text(form, value)
        text, complaints = self._skills[form, value]
        for complaint in complaints:
            self._reading.refuse(item.path if item else "", complaint)
        return text

    def _skill_text(self, form: str, value: str) -> tuple[str, list[str]]:
        if form == "template":
            return whole(template(value)), []
        if form == "text":
            return whole(value), [f"still holds the placeholder {each}" for each in placeholders(value)]
        trouble = Problems(value)
        content = read_file(self._base / value, trouble)
        text = (decode(content, trouble) if content is not None else None) or ""
        complaints = [problem.message for problem in trouble.in_order()]
        if not complaints and not text.strip():
            complaints = ["it is empty"]
        complaints += [f"it still holds the placeholder {each}" for each in placeholders(text)]
        return whole(text), [f"{value} cannot be used: {complaint}" for complaint in complaints]

    def _input(self, item: Item) -> TaskInput | None:
        values = item.values
        if "path" not in values or "name" in item.refused:
            return None
        name = values.get("name") or Path(values["path"]).name
        try:
            name = below("inbox", name).rstrip("/")
        except Unfit:
            self._reading.refuse(item.path, "needs a name below inbox/: add one with `as`")
            return None
        return TaskInput(**{**values, "path": str(self._base / values["path"]), "name": name})

    def _output(self, item: Item) -> TaskOutput | None:
        return TaskOutput(**item.values) if "path" in item.values else None

    def _dependency(self, item: Item) -> Dependency | None:
        return Dependency(**{"on_failure": self._on_failure, **item.values}) if "task" in item.values else None

    def _wait(self, item: Item) -> WaitFor | None:
        return WaitFor(**{"on_failure": self._on_failure, **item.values}) if "task" in item.values else None


def _completed(task: Task, tasks: dict[str, Task]) -> tuple[Dependency, ...]:
    """A task that there is not has nothing to hand on: that it is missing is noted elsewhere."""
    return tuple(complete(edge, tasks[edge.task]) if edge.task in tasks else edge for edge in task.depends_on)
