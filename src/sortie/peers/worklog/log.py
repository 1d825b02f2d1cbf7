"""A work log as it was read: its status lines, its index, its entries, and the byte range of every part."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .entry import Entry
from .head import IndexRow, StatusLine

PartKind = Literal["preamble", "status", "index", "archive", "session", "section", "entry", "comment"]
_STRIDE = 65_536


class Part(Struct, frozen=True, gc=False):
    kind: PartKind
    start: int
    end: int


class Remark(Struct, frozen=True, kw_only=True):
    """Something that was read as text because it is not what it seems to be meant as."""

    line: int
    sentence: str


class Worklog(Struct, frozen=True, kw_only=True, eq=False):
    """`status` has every line of the status block, and those that are scattered over the body."""

    data: bytes
    status: tuple[StatusLine, ...]
    index: tuple[IndexRow, ...]
    entries: tuple[Entry, ...]
    remarks: tuple[Remark, ...]
    others: list[tuple[PartKind, int]]  # where the parts start that are no entries
    body_start: int  # where the first session or entry starts: what is in front of it is edited in place
    index_end: int = -1  # behind the last line of the table of the decision index, where there is one

    @property
    def parts(self) -> tuple[Part, ...]:
        """They cover the data without gap or overlap."""
        entries: list[tuple[PartKind, int]] = [("entry", entry.start) for entry in self.entries]
        starts = sorted([*self.others, *entries], key=lambda start: start[1])
        ends = [*(at for _, at in starts[1:]), len(self.data)]
        return tuple(Part(kind, at, end) for (kind, at), end in zip(starts, ends, strict=True) if end > at)

    def now_working(self) -> dict[str, StatusLine]:
        """By agent. A pinned line counts before those in the body; of several the latest does."""
        found: dict[str, StatusLine] = {}
        for line in sorted(self.status, key=lambda one: one.pinned):
            if line.agent:
                found[line.agent.casefold()] = line
        return {line.agent: line for line in found.values()}

    def pinned(self) -> dict[str, str]:
        """The other lines of the status block, by label."""
        return {line.label: line.text for line in self.status if not line.agent}

    def line_of(self, offset: int) -> int:
        """For many places, make one `Lines`."""
        return Lines(self.data).number(offset)


class Lines:
    """Numbers of lines for places in a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._before = [0]
        for start in range(0, len(data), _STRIDE):
            self._before.append(self._before[-1] + data.count(b"\n", start, start + _STRIDE))

    def number(self, offset: int) -> int:
        stride = min(offset // _STRIDE, len(self._before) - 1)
        return self._before[stride] + self._data.count(b"\n", stride * _STRIDE, offset) + 1
