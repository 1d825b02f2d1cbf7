"""A plan drawn for a terminal: tasks with lanes that show who waits for whom, or, of a crowd, a list by layers.

Lines come as pieces of text with their styles, none wider than there is room. What is left out is counted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from ..plans.graph import Edges, layers
from ..plans.lanes import lane_rows
from ..plans.picture import STATES, Picture, counted
from .format import cell_width, count, short

Line = list[tuple[str, str]]

MOST_DRAWN = 200
MOST_ROWS = 400
NAMED = 3
# Of the sentence at the end of a line: with less room it is left out.
NARROW = 8
STATE_WIDTH = max(map(len, STATES))

MARKS = {
    "running": ("●", "cyan"),
    "escalated": ("!", "magenta"),
    "failed": ("✗", "red"),
    "incomplete": ("✗", "red"),
    "blocked": ("■", "yellow"),
    "stale": ("●", "dim cyan"),
    "outdated": ("↻", "dim yellow"),
    "ready": ("◇", "blue"),
    "waiting": ("○", "bright_black"),
    "pending": ("○", "bright_black"),
    "completed": ("✓", "green"),
    "skipped": ("-", "dim"),
}
URGENCY = {state: number for number, state in enumerate(STATES)}


def draw_text(picture: Picture, width: int, rows: int = MOST_ROWS) -> list[Line]:
    """The whole plan in at most so many rows."""
    nodes, waits_for = picture.by_name, picture.waits_for
    states = {name: node.state for name, node in nodes.items()}
    lines = as_graph(waits_for, states, lambda name: nodes[name].note or nodes[name].title, width, rows)
    if lines is not None:
        return lines

    def about(name: str) -> str:
        return nodes[name].note or after(waits_for[name]) or nodes[name].title

    return as_list(layers(waits_for), states, about, width, rows)


def after(names: Sequence[str]) -> str:
    """`after a, b, c and 4 more`; nothing where nobody is waited for."""
    if not names:
        return ""
    more = len(names) - NAMED
    return f"after {', '.join(names[:NAMED])}" + (f" and {more} more" if more > 0 else "")


def as_graph(
    waits_for: Edges, states: Mapping[str, str], about: Callable[[str], str], width: int, rows: int
) -> list[Line] | None:
    """Every task with its lanes; None where there are none, they do not fit, or nobody could follow them."""
    if len(waits_for) > min(MOST_DRAWN, rows) or not any(waits_for.values()):
        return None
    drawn = lane_rows(waits_for)
    lanes = max((len(row.cells) for row in drawn), default=0)
    if len(drawn) > rows or lanes > width // 2:
        return None
    names = _name_width(states, width)
    lines: list[Line] = []
    for row in drawn:
        if not row.name:
            lines.append([(row.cells, "dim")])
            continue
        left, right = row.cells[: row.at], row.cells[row.at + 1 :].ljust(lanes - row.at)
        beginning = [(left, "dim"), _mark(states[row.name]), (right, "dim")]
        lines.append(_task(beginning, row.name, states[row.name], about(row.name), names, width))
    return lines


def as_list(
    columns: Sequence[Sequence[str]],
    states: Mapping[str, str],
    about: Callable[[str], str],
    width: int,
    rows: int,
) -> list[Line]:
    """The most urgent tasks that fit, each below a line that counts its whole layer; layers of which none is listed
    are counted together."""
    listed = _fitting(columns, states, rows)
    names = _name_width([name for layer in listed.values() for name in layer], width)
    lines: list[Line] = []
    for shown, run in groupby(range(len(columns)), key=lambda at: at if at in listed else -1):
        numbers = list(run)
        lines.append(_cut(_heading(numbers, columns, states), width))
        for name in listed.get(shown, ()):
            beginning = [("  ", ""), _mark(states[name]), (" ", "")]
            lines.append(_task(beginning, name, states[name], about(name), names, width))
    return lines


def _fitting(columns: Sequence[Sequence[str]], states: Mapping[str, str], rows: int) -> dict[int, list[str]]:
    """By layer, as many of the most urgent tasks as can be listed with the lines that this takes."""

    def urgent() -> Iterator[tuple[int, int, int]]:
        for number, column in enumerate(columns):
            for place, name in enumerate(column):
                yield URGENCY.get(states[name], len(STATES)), number, place

    most = heapq.nsmallest(rows, urgent())
    for fitting in range(len(most), 0, -1):
        listed: dict[int, list[int]] = {}
        for _, number, place in most[:fitting]:
            listed.setdefault(number, []).append(place)
        if _rows_for(len(columns), listed) <= rows:
            return {
                number: [columns[number][place] for place in sorted(places)] for number, places in listed.items()
            }
    return {}


def _rows_for(layer_count: int, listed: Mapping[int, Sequence[int]]) -> int:
    """One for each layer and task that is listed, and one for all layers between two of these."""
    between, last = 0, -1
    for number in (*sorted(listed), layer_count):
        between += number > last + 1
        last = number
    return between + sum(1 + len(places) for places in listed.values())


def _heading(numbers: Sequence[int], columns: Sequence[Sequence[str]], states: Mapping[str, str]) -> Line:
    """`layer 3: 120 tasks: 4 running, 116 waiting`."""
    counts = Counter(states[name] for number in numbers for name in columns[number])
    first, last, tasks = numbers[0] + 1, numbers[-1] + 1, counts.total()
    where = f"layer {first}" if first == last else f"layers {first} to {last}"
    line: Line = [(where, "bold"), (f": {count(tasks, 'task')}: ", "")]
    for number, state in enumerate(sorted(counts, key=lambda state: (URGENCY.get(state, len(STATES)), state))):
        line += [(", " if number else "", ""), (counted({state: counts[state]}), _mark(state)[1])]
    return line


def _mark(state: str) -> tuple[str, str]:
    return MARKS.get(state, ("?", ""))


def _name_width(names: Mapping[str, str] | Sequence[str], width: int) -> int:
    """Room for every name, unless that takes it from all the rest."""
    return min(max(map(len, names), default=0), width // 2)


def _task(beginning: Line, name: str, state: str, about: str, name_width: int, width: int) -> Line:
    """The name is whole as long as it fits at all; the sentence goes first, then the state, which has its mark."""
    line = [*beginning, (name.ljust(name_width), "bold" if state == "running" else "")]
    left = width - sum(cell_width(text) for text, _ in line)
    if left >= 2 + len(state):
        line.append((f"  {state.ljust(STATE_WIDTH)}" if about else f"  {state}", _mark(state)[1]))
        left -= 2 + STATE_WIDTH
        if about and left >= 2 + NARROW:
            line.append((f"  {short(about, left - 2)}", "dim" if state in ("completed", "skipped") else ""))
    return _cut(line, width)


def _cut(line: Line, width: int) -> Line:
    """At most so wide, and nothing blank at the end."""
    kept: Line = []
    for text, style in line:
        room = width - sum(cell_width(piece) for piece, _ in kept)
        if room <= 0:
            break
        kept.append((text, style) if cell_width(text) <= room else (text[: room - 1] + "…", style))
    while kept and not kept[-1][0].strip():
        kept.pop()
    if kept:
        kept[-1] = (kept[-1][0].rstrip(), kept[-1][1])
    return kept
