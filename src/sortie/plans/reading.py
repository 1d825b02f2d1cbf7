"""One pass over the values of a plan file by the tables of `keys`: what fits, and every misfit with its line."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..workflow.document import Tree
from ..workflow.fields import Kind, Unfit, shown
from ..workflow.problems import Problems, did_you_mean, listed
from .plan import Task
from .shape import Key, Many, Section, is_name


class Item(Struct, frozen=True):
    """A section that was read: `path` is where it stands in the file, `values` has the fields that were given and
    fit. `refused` has those that were given, or had to be, and do not."""

    path: str
    values: dict[str, Any]
    refused: frozenset[str] = frozenset()


class Draft(Struct, frozen=True):
    """A task as far as it could be made. `path` is where it stands in the file, `places` where the entries of its
    lists do, `refused` what is wrong with it already."""

    task: Task
    path: str
    places: dict[str, tuple[str, ...]]
    refused: frozenset[str] = frozenset()


class Reading:
    """Sections as `Item`s, and problems with their lines. Keys name tasks by their names, not by numbers."""

    def __init__(self, tree: Tree, problems: Problems) -> None:
        self._tree = tree
        self._problems = problems

    def section(self, section: Section, value: Any, path: str) -> Item | None:
        """None where there is not even a map; that is noted."""
        if isinstance(value, str) and section.short:
            value = {section.short: value}
        elif value is None and section.may_be_empty:
            value = {}
        if not isinstance(value, dict):
            if path not in self._tree.unusable:
                form = f"text or a map with {listed(section.keys)}" if section.short else "a map"
                self.refuse(path, f"must be {form}, not {shown(value)}")
            return None
        values: dict[str, Any] = {}
        refused: set[str] = set()
        for name, given in value.items():
            key = section.keys.get(name)
            if key is None:
                self.refuse(_join(path, name), _unknown(name, path, section))
                continue
            inner = _join(path, name)
            if inner not in self._tree.lines:
                inner = path  # a text alone stands in the place of the map
            field = section.fields[name]
            if inner in self._tree.unusable or not self._take(key, given, inner, values, field):
                refused.add(field)
        for name in section.required:
            if name not in value:
                key = section.keys[name]
                refused.add(section.fields[name])
                self.refuse(_join(path, name), f"is missing: {key.meaning[0].lower()}{key.meaning[1:].rstrip('.')}")
        if section.exactly_one and len(value) != 1 and not refused:
            self.refuse(path, f"must have exactly one of {listed(section.keys)}")
        return Item(path, values, frozenset(refused))

    def _take(self, key: Key, given: Any, path: str, values: dict[str, Any], field: str) -> bool:
        content = key.content
        if isinstance(content, Kind):
            try:
                values[field] = content.read(given)
            except Unfit as unfit:
                at = path if unfit.item is None else f"{path}.{unfit.item}"
                actual = f", not {shown(given)}" if unfit.item is None else ""
                self.refuse(path, f"{unfit}{actual}", line=self._tree.line_of(at))
                return False
            return True
        if isinstance(content, Many):
            return self._items(content, given, path, values, field)
        item = self.section(content, given, path)
        if item is not None:
            values[field] = item
        return item is not None

    def _items(self, content: Many, given: Any, path: str, values: dict[str, Any], field: str) -> bool:
        if not isinstance(given, list):
            self.refuse(path, f"must be a list, not {shown(given)}")
            return False
        items = [self.section(content.of, value, f"{path}.{index}") for index, value in enumerate(given)]
        values[field] = [item for item in items if item is not None]
        if len(items) < content.least:
            self.refuse(path, "must have at least one entry")
        return len(values[field]) == len(items) >= content.least

    def refuse(self, path: str, message: str, *, line: int = 0) -> None:
        self._problems.error(message, key=self.name_of(path), line=line or self._tree.line_of(path))

    def name_of(self, path: str) -> str:
        """A key path for people."""
        first, *rest = path.split(".", 2)
        if first != "tasks" or not is_name(name := self.task_name(path)):
            return path
        return ".".join((first, name, *rest[1:]))

    def task_name(self, path: str) -> str:
        """What is written as the name of the task that a path leads to or into, fit or not."""
        number = path.split(".")[1] if "." in path else ""
        task = self._tree.values["tasks"][int(number)] if number.isdecimal() else None
        name = task.get("name") if isinstance(task, dict) else None
        return name if isinstance(name, str) else ""

    def line_of(self, path: str) -> int:
        return self._tree.line_of(path)

    def is_written(self, path: str) -> bool:
        return path in self._tree.lines


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unknown(name: str, path: str, section: Section) -> str:
    hint = did_you_mean(name, section.keys)
    where = "a plan" if not path else f"{'an' if section.name[0] in 'aio' else 'a'} {section.name}"
    return f"there is no such key of {where}{hint or f'; use {listed(section.keys)}'}"
