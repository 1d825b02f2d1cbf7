"""Files that a turn hid from git, in a lane of somebody else: by a `.gitignore` that was not there before it.

What an agent makes in its own lane, or in none, may be ignored by rules of its own: caches and environments are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ..charter.charter import Charter
from ..charter.lanes import Lane, LaneMap
from ..roster import fold
from .checkout import Checkout
from .git import GitError
from .objects import entries_of

_MOST_HIDDEN = 10_000
_MOST_VISITED = 100_000


class Hidden(Struct, frozen=True, kw_only=True):
    files: frozenset[str] = frozenset()
    problem: str = ""


def lane_map(charter: Charter) -> LaneMap:
    """What several build against is its owner's, where no lane has it."""
    contracts = (
        Lane(name=contract.name, owner=contract.owner, globs=contract.locations, line=contract.line)
        for contract in charter.contracts
        if contract.owner
    )
    return LaneMap((*charter.lanes, *contracts))


def hidden_files(
    checkout: Checkout,
    trees: tuple[str, str],
    ignored: tuple[Mapping[str, str], Mapping[str, str]],
    charter: Charter,
    agent: str,
) -> Hidden:
    """By what is in the tree and what is ignored, each before and after the turn."""
    before, after = ignored
    rules = _Rules(checkout, trees, {path for path, mark in after.items() if mark and before.get(path) == mark})
    walk = _Walk(checkout.root, lane_map(charter), agent)
    found = set(walk.files(sorted(rules.new_for(after.keys() - before.keys()))))
    return Hidden(files=frozenset(rules.new_for(found)), problem=walk.problem)


class _Rules:
    """`known` are files that say what to ignore, are ignored themselves, and are as they were."""

    def __init__(self, checkout: Checkout, trees: tuple[str, str], known: set[str]) -> None:
        self._checkout = checkout
        self._trees = trees
        self._known = known

    def new_for(self, paths: Iterable[str]) -> set[str]:
        """Without those that are ignored by what was ignored before. A directory that has nothing but ignored files
        need not be ignored itself."""
        wanted = set(paths)
        if not wanted:
            return set()
        given = b"".join(b"./" + os.fsencode(path) + b"\0" for path in sorted(wanted))
        answer = b""
        with suppress(GitError):  # then nothing speaks for them
            options = ("-z", "--verbose", "--no-index", "--stdin")
            answer = self._checkout.own_git("check-ignore", *options, given=given, fine=(0, 1), literal=False)
        by_source: dict[str, set[str]] = {}
        words = list(map(os.fsdecode, answer.split(b"\0")))
        for source, path in zip(words[:-1:4], words[3::4], strict=True):
            by_source.setdefault(source.removeprefix("./"), set()).add(path.removeprefix("./"))
        for source in self._unchanged(by_source):
            wanted -= by_source[source]
        return wanted

    def _unchanged(self, sources: Iterable[str]) -> Iterator[str]:
        """What lies outside is our own list, made before the turn."""
        inside = [source for source in sources if not source.startswith("/") and source not in self._known]
        yield from (source for source in sources if source.startswith("/") or source in self._known)
        if inside:
            before, after = (entries_of(self._checkout, tree, inside) for tree in self._trees)
            yield from (source for source in inside if source in before and before[source] == after.get(source))


class _Walk:
    def __init__(self, root: Path, lanes: LaneMap, agent: str) -> None:
        self._root = root
        self._lanes = lanes
        self._agent = fold(agent)
        self._visited = 0
        self.problem = ""

    def files(self, entries: Iterable[str]) -> Iterator[str]:
        """Those in a lane of somebody else; not more than can be told."""
        found = 0
        for path in self._all(entries):
            having = self._lanes.lanes_of(path)
            if having and not having[0].is_shared and fold(having[0].owner) != self._agent:
                found += 1
                yield path
            if found >= _MOST_HIDDEN or self._visited >= _MOST_VISITED:
                self.problem = "New rules of what git ignores hide more files than can be told."
                return

    def _all(self, entries: Iterable[str]) -> Iterator[str]:
        for entry in entries:
            self._visited += 1
            if not entry.endswith("/"):
                yield entry
                continue
            for directory, inner, names in os.walk(self._root / entry):
                below = os.path.relpath(directory, self._root)
                links = [name for name in inner if Path(directory, name).is_symlink()]
                inner[:] = sorted(name for name in inner if name != ".git")
                for name in sorted((*names, *links)):
                    self._visited += 1
                    yield f"{below}/{name}"
