"""What may stand in a plan file, as a table can say it: sections, their keys, and what a single value may be.

One table serves the reading, the JSON Schema and the page for people, so that they cannot disagree.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from ..workflow.fields import Kind, Milliseconds, PlainText, Texts, Unfit

# A path inside a task folder. Every rule that a pattern can tell is in it, for the schema too.
RELATIVE_PATH = r"^(?![A-Za-z]:)(?!/)(?!(.*/)?\.\.(/|$))(?=.*[^/.\s])[^\\\u0000-\u001f\u007f]+$"
NAME = r"^[a-z0-9][a-z0-9-]{0,63}$"

_RELATIVE_PATH = re.compile(RELATIVE_PATH[:-1] + r"\Z")
_NAME = re.compile(NAME[:-1] + r"\Z")
_CONTROL = re.compile(r"[\u0000-\u001f\u007f]")

LONGEST_TEXT = 64 * 1024
_LONGEST_NAME = 255
_LONGEST_PATH = 1024


class Key(Struct, frozen=True, kw_only=True):
    """One key of a section. `meaning` is a sentence for people; `field` is the name of what it becomes, where that
    differs from the key; `default` is told to people where the struct that is made has no other."""

    meaning: str
    content: Kind | Section | Many
    field: str = ""
    required: bool = False
    default: Any = None


class Section(Struct, frozen=True, kw_only=True, dict=True):
    """A map of these keys, which becomes a `makes`. `short` is the key that a text alone stands for."""

    name: str
    makes: type[Struct]
    keys: dict[str, Key]
    short: str = ""
    exactly_one: bool = False

    @cached_property
    def fields(self) -> dict[str, str]:
        """For each key the name of what it becomes. Times become seconds."""
        return {
            name: key.field or (name.removesuffix("_ms") if isinstance(key.content, Milliseconds) else name)
            for name, key in self.keys.items()
        }

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(name for name, key in self.keys.items() if key.required)

    @property
    def may_be_empty(self) -> bool:
        """Whether the key of it may stand there with nothing behind."""
        return not self.short and not self.required

    def default_of(self, key: str) -> Any:
        """As it would be written in the file; None where leaving it out means that there is none."""
        found = self.keys[key]
        if found.default is not None or found.required:
            return found.default
        default = next(
            (field.default for field in msgspec.structs.fields(self.makes) if field.name == self.fields[key]),
            None,
        )
        if isinstance(found.content, Milliseconds) and isinstance(default, float):
            return round(default * 1000)
        return default if isinstance(default, str | int | float) and default != "" else None


class Many(Struct, frozen=True, kw_only=True):
    """A list of such sections, at least `least` of them."""

    of: Section
    least: int = 0


class Text(PlainText, frozen=True, kw_only=True):
    """For people and agents to read, of any number of lines."""

    filled: bool = True

    def read(self, value: Any) -> str:
        text = super().read(value)
        if len(text) > LONGEST_TEXT:
            raise Unfit(f"must be at most {LONGEST_TEXT} characters long (give more as an input file)")
        return text


class Lines(Texts, frozen=True, kw_only=True):
    """A list of such texts, at least `least` of them."""

    least: int = 0

    def read(self, value: Any) -> tuple[str, ...]:
        texts = super().read(value)
        if len(texts) < self.least:
            raise Unfit("must have at least one entry")
        for index, text in enumerate(texts):
            if len(text) > LONGEST_TEXT:
                raise Unfit(f"must hold texts of at most {LONGEST_TEXT} characters", index)
        return texts


class Name(PlainText, frozen=True):
    """Of a task, and of the plan. Each is the name of a folder; those in `reserved` are ours."""

    reserved: tuple[str, ...] = ()

    def read(self, value: Any) -> str:
        name = super().read(value)
        if not is_name(name):
            raise Unfit("must be 1 to 64 small letters, digits and hyphens, and begin with no hyphen")
        if name in self.reserved:
            raise Unfit("must be another name: this one is reserved")
        return name


class TaskName(PlainText, frozen=True):
    """That of another task: whether there is such a one is asked when all are known."""

    filled: bool = True


class SourcePath(PlainText, frozen=True):
    """Of a file or directory of the plan's author: absolute, or relative to the plan file."""

    filled: bool = True

    def read(self, value: Any) -> str:
        path = super().read(value)
        if _CONTROL.search(path):
            raise Unfit("must be a path without control characters")
        return path


class BoxPath(PlainText, frozen=True, kw_only=True):
    """A path in a task folder, below the folder `top`, whose name may be left out.

    It is read as a whole path such as `outbox/data/x.csv`; `directory`: with a slash at its end, whether it was
    written or not.
    """

    top: str
    directory: bool = False

    def read(self, value: Any) -> str:
        return f"{self.top}/{below(self.top, super().read(value), directory=self.directory)}"


class BoxPaths(Texts, frozen=True, kw_only=True):
    """A list of such paths."""

    top: str

    def read(self, value: Any) -> tuple[str, ...]:
        paths = []
        for index, text in enumerate(super().read(value)):
            try:
                paths.append(f"{self.top}/{below(self.top, text)}")
            except Unfit as unfit:
                raise Unfit(str(unfit), index) from unfit
        return tuple(paths)


def is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.match(value) is not None


def below(top: str, text: str, *, directory: bool = False) -> str:
    """A path in the simplest form, without `top` before it; raises `Unfit` for one that leads out of it."""
    if not _RELATIVE_PATH.match(text):
        raise Unfit(f"must be a path below {top}/, {_why_not(text)}")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if parts[0] == top:
        del parts[0]
    elif parts[0] in {"inbox", "outbox", "workspace"}:
        raise Unfit(f"must be a path below {top}/, not below {parts[0]}/")
    if not parts and directory:
        return ""
    if not parts:
        raise Unfit(f"must be a path below {top}/, not all of it")
    if len("/".join(parts).encode()) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise Unfit(f"must be a shorter path: {_LONGEST_NAME} bytes for a name, {_LONGEST_PATH} for all")
    is_directory = directory or text.endswith(("/", "/."))
    return "/".join(parts) + "/" * is_directory


def _why_not(text: str) -> str:
    if text.startswith("/"):
        return "and not begin with a slash"
    if re.match(r"[A-Za-z]:", text):
        return "and not begin with a drive letter"
    if "\\" in text:
        return "with slashes and no backslashes"
    if _CONTROL.search(text):
        return "without control characters"
    if ".." in text.split("/"):
        return 'without ".."'
    return "and not be empty"
