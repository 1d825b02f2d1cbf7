"""What of a markdown file is code or comment, where nothing is a heading: fences and HTML comments, by byte ranges.

A card may quote another card in a fence, and a template has one in a comment. But a fence that somebody forgot to
close must not hide the mail below it. So where any fence of a file is in doubt, none reaches past a heading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

_MARKS = (b"```", b"~~~", b"<!--")


class Mark(Struct, frozen=True):
    """The beginning of a line that may open or close something. `run` is the fence, or `<!--`."""

    start: int
    run: bytes
    info: bytes
    end: int  # of its line


class Hidden(Struct, frozen=True):
    """Ranges in order; `doubtful` is where the fence or comment begins that is never closed, or None."""

    ranges: tuple[tuple[int, int], ...] = ()
    doubtful: int | None = None

    def covers(self, at: int) -> bool:
        before = bisect_right(self.ranges, (at, 1 << 62)) - 1
        return before >= 0 and at < self.ranges[before][1]


def hidden_in(data: bytes, headings: Sequence[int]) -> Hidden:
    """`headings` are where cards and sections would begin, in order."""
    marks = sorted(_marks(data), key=lambda mark: mark.start)
    if not marks:
        return Hidden()
    ranges, doubtful = _ranges(data, marks, headings, bounded=False)
    if doubtful is None:
        return Hidden(ranges)
    return Hidden(_ranges(data, marks, headings, bounded=True)[0], doubtful)


def _marks(data: bytes) -> Iterator[Mark]:
    for token in _MARKS:
        # A search for a byte that is not there is many times quicker than one for three.
        at = data.find(token, data.find(token[:1])) if token[:1] in data else -1
        while at >= 0:
            line = data.rfind(b"\n", max(at - 4, 0), at) + 1
            if (line or at < 4) and not data[line:at].strip(b" "):
                end = data.find(b"\n", at)
                end = len(data) if end < 0 else end + 1
                rest = data[at:end]
                run = token if token == b"<!--" else rest[: len(rest) - len(rest.lstrip(token[:1]))]
                yield Mark(at, run, rest[len(run) :].strip(), end)
                at = data.find(token, end)
            else:
                at = data.find(token, at + len(token))


def _ranges(
    data: bytes, marks: list[Mark], headings: Sequence[int], *, bounded: bool
) -> tuple[tuple[tuple[int, int], ...], int | None]:
    """With `bounded`, nothing reaches past a heading; else the first range that is in doubt ends the work."""
    ranges: list[tuple[int, int]] = []
    at = 0
    while at < len(marks):
        mark = marks[at]
        following = bisect_right(headings, mark.start)
        bound = headings[following] if following < len(headings) else len(data)
        if mark.run == b"<!--":
            end, after = _comment(data, marks, at, bound if bounded else len(data))
        elif mark.run[:1] == b"`" and b"`" in mark.info:
            at += 1  # code within a line
            continue
        else:
            end, after = _fence(marks, at, bound if bounded else len(data))
            if end is not None and not bounded and bound < end and _holds_an_opener(marks[at:after], mark):
                end = None
        if end is None and not bounded:
            return (), mark.start
        if end is None:
            end = bound
            while after < len(marks) and marks[after].start < bound:
                after += 1
        ranges.append((mark.start, end))
        at = after
    return tuple(ranges), None


def _comment(data: bytes, marks: list[Mark], at: int, limit: int) -> tuple[int | None, int]:
    found = data.find(b"-->", marks[at].start + len(b"<!--"), limit)
    after = at + 1
    while found >= 0 and after < len(marks) and marks[after].start < found:
        after += 1
    return (found + len(b"-->") if found >= 0 else None), after


def _fence(marks: list[Mark], at: int, limit: int) -> tuple[int | None, int]:
    opened = marks[at].run
    for after in range(at + 1, len(marks)):
        mark = marks[after]
        if mark.start >= limit:
            break
        if mark.run.startswith(opened) and not mark.info:
            return mark.end, after + 1
    return None, at + 1


def _holds_an_opener(marks: list[Mark], first: Mark) -> bool:
    """A fence with a language below a fence that was not closed: the one who wrote it took that for closed."""
    return any(mark.info and mark.run.startswith(first.run) for mark in marks[1:])
