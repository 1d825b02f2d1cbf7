"""Which files a lane has: path patterns with one exact meaning each, matched in time linear in the path.

A pattern is read from the root of the repository, upper and lower case apart, and `/` separates names:

- `*` stands for any characters within one name, `?` for one; every other character for itself, `[` and `{` too.
- `**` as a whole name stands for any number of directories, none too; at the end, for all that is below.
- A pattern that ends in `/` has all that is below that directory. One whose last name has no wildcard has the file
  of that name, or all below the directory of that name; one whose last name has a wildcard has files alone.
- `!` before a pattern takes its files out of this lane, wherever in the lane it stands.

So `Makefile` is the one at the root, `**/Makefile` is any. What leads elsewhere (`..`, `/x`, `a\\b`) is no pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

LONGEST_GLOB = 500
# Owners of what everybody may change.
SHARED = frozenset({"shared", "all"})

_WILD = re.compile(r"[*?]")
_STARS = re.compile(r"\*+")


class Lane(Struct, frozen=True, kw_only=True):
    """`owner` is as the roster has it where it is there, and `shared` for what is everybody's."""

    name: str
    owner: str
    globs: tuple[str, ...]
    line: int = 0

    @property
    def is_shared(self) -> bool:
        return self.owner.casefold() in SHARED


class LaneMap:
    """Finds the lanes of a path: looks only at patterns whose leading names without a wildcard are the path's."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self._by_beginning: dict[str, list[tuple[int, re.Pattern[str], bool]]] = {}
        self._lanes = tuple(lanes)
        for number, lane in enumerate(self._lanes):
            for glob in lane.globs:
                if not problem_with(glob):
                    pattern = glob.removeprefix("!")
                    entry = (number, re.compile(_expression(pattern), re.DOTALL), glob != pattern)
                    self._by_beginning.setdefault(_beginning(pattern), []).append(entry)

    def lanes_of(self, path: str) -> tuple[Lane, ...]:
        """All that have it, in the order of the charter; none for what is no path below the root."""
        names = path.split("/")
        if not _are_names(names) or "\0" in path:
            return ()
        having: set[int] = set()
        without: set[int] = set()
        for beginning in ("", *accumulate(names, "{}/{}".format)):
            for number, pattern, takes_out in self._by_beginning.get(beginning, ()):
                if pattern.fullmatch(path):
                    (without if takes_out else having).add(number)
        return tuple(self._lanes[number] for number in sorted(having - without))

    def owner_of(self, path: str) -> str | None:
        """The owner by the first lane that has it; None for a file that is in no lane."""
        found = self.lanes_of(path)
        return found[0].owner if found else None


def owner_of(path: str, lanes: Sequence[Lane]) -> str | None:
    """The owner of a path like `src/a.py`; None for one that is in no lane. Of several lanes the first counts."""
    return _map_of(tuple(lanes)).owner_of(path)


def problem_with(glob: str) -> str:
    """Why this is no pattern, as the end of a sentence about it; empty where it is one."""
    pattern = glob.removeprefix("!")
    if not pattern:
        return "is empty"
    if len(pattern) > LONGEST_GLOB:
        return f"is longer than {LONGEST_GLOB} characters"
    if "\\" in pattern:
        return "has a backslash; write / between names"
    if not pattern.isprintable():
        return "has characters that cannot be printed"
    if pattern.startswith("/"):
        return "begins with /; write it from the root of the repository, without the first /"
    if pattern.startswith("!"):
        return "begins with two !"
    if not _are_names(pattern.removesuffix("/").split("/")):
        return "leads elsewhere or nowhere; names between / must not be empty, . or .."
    return ""


@lru_cache(maxsize=16)
def _map_of(lanes: tuple[Lane, ...]) -> LaneMap:
    return LaneMap(lanes)


def _are_names(names: Iterable[str]) -> bool:
    return not any(name in ("", ".", "..") for name in names)


def _beginning(pattern: str) -> str:
    names: list[str] = []
    for name in pattern.removesuffix("/").split("/"):
        if _WILD.search(name):
            break
        names.append(name)
    return "/".join(names)


def _expression(pattern: str) -> str:
    """What lies between two `**` is looked for at the first place where it is, and never at a second: if the rest
    does not fit behind the first place, it fits behind no later one. So nothing is tried twice."""
    names = pattern.removesuffix("/").split("/")
    if pattern.endswith("/"):
        names.append("**")
    *inner, last = _runs(names)
    expression = ""
    for number, run in enumerate(inner):
        found = "".join(f"{_name(name)}/" for name in run)
        expression += f"(?>{_SKIPPED}{found})" if number and run else found
    skipped = _SKIPPED if inner else ""
    if not last:
        return f"{expression}.+"
    found = "/".join(_name(name) for name in last)
    if _WILD.search(last[-1]):
        return f"{expression}{skipped}{found}"
    return f"{expression}(?>{skipped}{found}(?=/|\\Z))(?:/.+)?"


_SKIPPED = "(?:[^/]++/)*?"


def _runs(names: Iterable[str]) -> Iterator[list[str]]:
    """The names before, between and after each `**`."""
    run: list[str] = []
    for name in names:
        if name == "**":
            yield run
            run = []
        else:
            run.append(name)
    yield run


def _name(name: str) -> str:
    first, *others = ("".join("[^/]" if c == "?" else re.escape(c) for c in piece) for piece in _STARS.split(name))
    if not others:
        return first
    *inner, last = others
    middle = "".join(f"(?>[^/]*?{piece})" for piece in inner)
    return f"{first}{middle}(?:[^/]*+)" if not last else f"{first}{middle}[^/]*{last}"
