"""A plan as rows of text, one for each task, with lanes at their left that show who waits for whom.

A lane begins at a task and goes down to the last one that waits for it. Where a task joins lanes that are not just
its own, a row of corners and tees comes before it; a lane that is only crossed stays whole there. One mark right
below another means that it waits for that one.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from .graph import Edges, layers

# By whether it goes up, down, left and right.
CORNERS = {
    (False, True, False, True): "╭",
    (False, True, True, False): "╮",
    (False, True, True, True): "┬",
    (True, False, False, True): "╰",
    (True, False, True, False): "╯",
    (True, False, True, True): "┴",
    (True, True, False, True): "├",
    (True, True, True, False): "┤",
    (True, True, True, True): "┼",
}


class LaneRow(Struct, frozen=True):
    """`cells` are the lanes, two columns each; a row with a `name` has a blank for its mark at `at`."""

    cells: str
    name: str = ""
    at: int = 0


def lane_rows(edges: Edges) -> list[LaneRow]:
    """Layer after layer; within one, as their lanes come from left to right."""
    waiting = Counter(before for name in edges for before in set(edges[name]))
    lanes: list[str] = []
    rows: list[LaneRow] = []
    for layer in layers(edges):
        places = {name: at for at, name in enumerate(lanes) if name}
        for name in sorted(layer, key=lambda one: (min((places[b] for b in edges[one]), default=len(lanes)), one)):
            joined = {lanes.index(before) for before in set(edges[name])}
            waiting.subtract(set(edges[name]))
            ending = {at for at in joined if not waiting[lanes[at]]}
            own = min(ending) if ending else _free(lanes)
            if joined - {own}:
                rows.append(LaneRow(_joining(lanes, joined, ending, own)))
            elif not joined and rows and rows[-1].at == 2 * own:
                rows.append(LaneRow(_cells(lanes)))
            for at in ending:
                lanes[at] = ""
            lanes[own] = name
            rows.append(LaneRow(_cells(lanes, own), name, 2 * own))
            if not waiting[name]:
                lanes[own] = ""
            while lanes and not lanes[-1]:
                lanes.pop()
    return rows


def _free(lanes: list[str]) -> int:
    if "" not in lanes:
        lanes.append("")
    return lanes.index("")


def _lane(name: str) -> str:
    return "│" if name else " "


def _cells(lanes: list[str], mark: int = -1) -> str:
    return " ".join(" " if at == mark else _lane(name) for at, name in enumerate(lanes))


def _joining(lanes: list[str], joined: set[int], ending: set[int], own: int) -> str:
    first, last = min(*joined, own), max(*joined, own)
    cells = ""
    for at, name in enumerate(lanes):
        across = first <= at < last
        if at in joined or at == own:
            goes_down = at == own or at not in ending
            cells += CORNERS[at in joined, goes_down, at > first, at < last]
        else:
            cells += "─" if first < at < last and not name else _lane(name)
        cells += "─" if across else " "
    return cells.rstrip()
