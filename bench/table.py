"""One line of the results, what it is to reach, and the table in which all stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct


class Row(Struct, frozen=True):
    """`floor` is in the same unit, measured in the same run; `floor_is` says what it is."""

    what: str
    value: float
    unit: str
    floor: float | None = None
    floor_is: str = ""
    note: str = ""

    @property
    def more_is_better(self) -> bool:
        return self.unit.endswith("/s")

    @property
    def ratio(self) -> float | None:
        """How many times the floor it costs."""
        if not self.floor or not self.value:
            return None
        return self.floor / self.value if self.more_is_better else self.value / self.floor


class Reference(NamedTuple):
    """In the unit of the row. The Go implementation was measured on another day, on a machine like this one."""

    reach: float | None = None
    go: float | None = None


SEEN_IN_A_PAGE = "event committed to its text in a page"
PARSE_A_WORK_LOG = "work log of 100,000 entries: parse"
REFERENCES = {
    "drain of 500 issues, 1 slot": Reference(60, 55),
    "drain of 500 issues, 10 slots": Reference(150, 128),
    "drain of 500 issues, 50 slots": Reference(150, 133),
    "drain of 50 issues, 10 slots": Reference(150, 332),
    "drain of 2,000 issues, 10 slots": Reference(150, 61),
    "drain of 10,000 issues, 10 slots": Reference(150),
    "CPU of the service per issue, 10 slots": Reference(6, 12),
    "end of a turn to start of the next, median": Reference(2, 1.3),
    "end of a turn to start of the next, p95": Reference(None, 2.0),
    "start of the service to the first agent": Reference(150, 36),
    "issue written to agent started": Reference(10, 16_600),
    "500 live sessions: memory (RSS)": Reference(60, 45),
    "500 live sessions: CPU in a minute": Reference(0.1, 0.02),
    "look at 10,000 unchanged issues": Reference(1, 85),
    "tool server: start to tools/list": Reference(22, 9),
    "tool server: 20 at once": Reference(200, 84),
    "tracker_api call after the first": Reference(5),
    "kill -9 with 20 agents: start to all at work": Reference(250, 35),
    "kill -9 with 20 agents: issues that ran twice at once": Reference(0, 20),
    PARSE_A_WORK_LOG: Reference(50),
    f"{SEEN_IN_A_PAGE}, median": Reference(1000),
    f"{SEEN_IN_A_PAGE}, p95": Reference(1000),
}
COMMAND = Reference(100, 9)
READY_TO_START = "last dependency's end to start"


def reference(what: str) -> Reference:
    if what.endswith(READY_TO_START):
        return Reference(10)
    return COMMAND if what.startswith("`sortie ") else REFERENCES.get(what, Reference())


def as_table(rows: Iterable[Row]) -> str:
    lines = [
        "| what | measured | floor | times the floor | floor is | reach | reached | Go, earlier | note |",
        "|---|---:|---:|---:|---|---:|:---:|---:|---|",
    ]
    for row in rows:
        reach, go = reference(row.what)
        cells = (
            row.what,
            f"{_number(row.value)} {row.unit}",
            _number(row.floor),
            _number(row.ratio),
            row.floor_is,
            _number(reach),
            "" if reach is None else "yes" if _reached(row, reach) else "**no**",
            _number(go),
            row.note,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _reached(row: Row, reach: float) -> bool:
    return row.value >= reach if row.more_is_better else row.value <= reach


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"
