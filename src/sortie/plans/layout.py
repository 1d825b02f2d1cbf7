"""Where the boxes of a plan stand and how the lines between them run: layers side by side, with few crossings.

Ours, because the libraries for it do not fit: grandalf is under the GPL, and fast-sugiyama leaves out tasks
without edges, has no wheels for musl or older Linux, and is the slower one. What is kept true: no two boxes touch,
a line runs from the right of a box to the left of one further right, the same plan always looks the same. A line
that passes other layers goes between their boxes; beyond `MOST_BENDS` in all, the longest lines go straight.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from itertools import pairwise
from statistics import fmean

from msgspec import Struct

from .graph import Edges, layers

Point = tuple[float, float]

HEIGHT = 40.0
ROW_GAP = 16.0
LINE_GAP = 10.0
LAYER_GAP = 72.0
MOST_BENDS = 20_000
SWEEPS = 8


class Box(Struct, frozen=True):
    """The upper left corner and the size."""

    name: str
    x: float
    y: float
    width: float
    height: float


class Route(Struct, frozen=True):
    """A line from box to box through these points; between two of the same height it runs within a layer."""

    before: str
    after: str
    points: tuple[Point, ...]


class Layout(Struct, frozen=True):
    width: float
    height: float
    boxes: tuple[Box, ...]
    routes: tuple[Route, ...]


def lay_out(edges: Edges, widths: Mapping[str, float]) -> Layout:
    """`widths` is how wide each box has to be at least; all of a layer get the width of the widest."""
    columns = layers(edges)
    web = _Web(columns, edges)
    web.untangle()
    heights = web.heights()
    wide = [max(widths[name] for name in column) for column in columns]
    left = [0.0]
    for width in wide:
        left.append(left[-1] + width + LAYER_GAP)
    boxes = tuple(
        Box(name, left[at], heights[web.ids[name]] - HEIGHT / 2, wide[at], HEIGHT)
        for at, column in enumerate(columns)
        for name in column
    )
    routes = []
    for (before, after), chain in web.chains.items():
        first, last = web.ids[before], web.ids[after]
        points = [(left[web.layer[first]] + wide[web.layer[first]], heights[first])]
        for bend in chain:
            x, y = left[web.layer[bend]], heights[bend]
            points += [(x, y), (x + wide[web.layer[bend]], y)]
        routes.append(Route(before, after, (*points, (left[web.layer[last]], heights[last]))))
    return Layout(
        width=max(left[-1] - LAYER_GAP, 0.0),
        height=max((*(box.y + box.height for box in boxes), *heights), default=0.0),
        boxes=boxes,
        routes=tuple(routes),
    )


class _Web:
    """Boxes and bends as numbers, boxes first. `rows` has those of each layer from top to bottom; `before` and
    `after` are the neighbours in the next layer on either side; `chains` are the bends of each line."""

    def __init__(self, columns: list[list[str]], edges: Edges) -> None:
        names = [name for column in columns for name in column]
        self.ids = {name: number for number, name in enumerate(names)}
        self.layer = [at for at, column in enumerate(columns) for _ in column]
        self.rows = [[self.ids[name] for name in column] for column in columns]
        self.before: list[list[int]] = [[] for _ in names]
        self.after: list[list[int]] = [[] for _ in names]
        self.chains: dict[tuple[str, str], list[int]] = {}
        lines = {(before, name) for name in edges for before in edges[name]}
        for line in sorted(lines, key=lambda line: (self._length(line), line)):
            self.chains[line] = self._bends(line)

    def _length(self, line: tuple[str, str]) -> int:
        return self.layer[self.ids[line[1]]] - self.layer[self.ids[line[0]]]

    def _bends(self, line: tuple[str, str]) -> list[int]:
        first, last = (self.ids[name] for name in line)
        count = self._length(line) - 1
        if len(self.layer) - len(self.ids) + count > MOST_BENDS:
            return []
        bends = list(range(len(self.layer), len(self.layer) + count))
        for at, bend in enumerate(bends, self.layer[first] + 1):
            self.layer.append(at)
            self.rows[at].append(bend)
            self.before.append([])
            self.after.append([])
        for one, other in pairwise((first, *bends, last)):
            self.after[one].append(other)
            self.before[other].append(one)
        return bends

    def untangle(self) -> None:
        """Put everybody beside the middle of its neighbours, from the left and from the right, while that helps."""
        best, least = [list(row) for row in self.rows], self._crossings()
        for number in range(SWEEPS):
            if not least:
                break
            rows, neighbours = (self.rows, self.before) if number % 2 == 0 else (self.rows[::-1], self.after)
            for fixed, row in pairwise(rows):
                place = {one: at for at, one in enumerate(fixed)}
                wish = {
                    one: fmean(place[other] for other in neighbours[one]) if neighbours[one] else float(at)
                    for at, one in enumerate(row)
                }
                row.sort(key=wish.__getitem__)
            if (crossings := self._crossings()) < least:
                best, least = [list(row) for row in self.rows], crossings
        self.rows = best

    def _crossings(self) -> int:
        count = 0
        for left, right in pairwise(self.rows):
            place = {one: at for at, one in enumerate(right)}
            ends: list[int] = []
            for one in left:
                reached = sorted(place[other] for other in self.after[one])
                count += sum(len(ends) - bisect_right(ends, end) for end in reached)
                for end in reached:
                    insort(ends, end)
        return count

    def heights(self) -> list[float]:
        """The middle of each box and bend, from the top; neighbours as level as the order in their layer allows."""
        middle = [0.0] * len(self.layer)
        room = [self._offsets(row) for row in self.rows]
        for row, offsets in zip(self.rows, room, strict=True):
            for one, offset in zip(row, offsets, strict=True):
                middle[one] = offset - offsets[-1] / 2
        for number in range(SWEEPS):
            neighbours = self.before if number % 2 == 0 else self.after
            for row, offsets in list(zip(self.rows, room, strict=True))[:: 1 if number % 2 == 0 else -1]:
                wishes = [
                    fmean(middle[other] for other in neighbours[one]) if neighbours[one] else middle[one]
                    for one in row
                ]
                level = _rising([wish - offset for wish, offset in zip(wishes, offsets, strict=True)])
                for one, height, offset in zip(row, level, offsets, strict=True):
                    middle[one] = height + offset
        top = min((height - self._half(one) for one, height in enumerate(middle)), default=0.0)
        return [height - top for height in middle]

    def _offsets(self, row: list[int]) -> list[float]:
        """How far below the first of a layer each one is, where they stand as close as they may."""
        offsets = [0.0]
        for one, other in pairwise(row):
            gap = ROW_GAP if self._half(one) and self._half(other) else LINE_GAP
            offsets.append(offsets[-1] + self._half(one) + gap + self._half(other))
        return offsets

    def _half(self, one: int) -> float:
        """From its middle to its upper edge; a bend is as thin as a line."""
        return HEIGHT / 2 if one < len(self.ids) else 0.0


def _rising(values: list[float]) -> list[float]:
    """The nearest numbers that never fall: whatever would fall is replaced by the mean of those that meet."""
    groups: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while groups and groups[-1][0] > mean:
            other, more = groups.pop()
            mean, count = (mean * count + other * more) / (count + more), count + more
        groups.append((mean, count))
    return [mean for mean, count in groups for _ in range(count)]
