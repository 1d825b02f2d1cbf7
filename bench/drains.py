"""How fast issues are worked off: by slots, by the size of the file, and what of it the service itself costs."""

from __future__ import annotations

import statistics
from pathlib import Path

from msgspec import Struct

from .bench import Bench
from .floor import spawned
from .project import Project
from .table import Row

ISSUES = 500
SLOTS = (1, 10, 50)
SIZES = (50, 2_000, 10_000)
FLOOR = "`posix_spawn`"


class Drained(Struct, frozen=True):
    """Issues per second, seconds of the service's CPU for each, seconds from each end to the next start."""

    rate: float
    cpu: float
    gaps: list[float]
    ended: int


def drained(directory: Path, program: Path, count: int, slots: int, limit: float = 60.0) -> Drained:
    """Work off `count` issues, each with one turn of the agent, or as many as the limit in seconds allows."""
    project = Project(directory, command=program, slots=slots)
    project.write_issues(count)
    service = project.start("--until-idle")
    service.until_stamped(1)
    before = service.cpu()
    if service.until_stamped(2 * count, limit):
        cpu = service.cpu_at_end()
        service.wait()
        if set(project.states()) != {"review"}:
            raise RuntimeError(f"not every issue was handed over in {directory}")
    else:
        cpu = service.cpu()
        service.end()
    ended = len(project.stamps.ends())
    return Drained(rate=project.stamps.rate(), cpu=(cpu - before) / ended, gaps=project.stamps.gaps(), ended=ended)


def drain(bench: Bench) -> list[Row]:
    """Issues with one turn each, and the same program spawned as often with as many at once, in turns."""
    rows = []
    for slots in SLOTS:
        ours, floors = [], []
        for n in bench.repeated():
            folder = bench.root / f"drain-{slots}-{n}"
            floors.append(spawned(bench.program.done, folder / "before", ISSUES, slots))
            ours.append(drained(folder / "ours", bench.program.done, ISSUES, slots))
            floors.append(spawned(bench.program.done, folder / "after", ISSUES, slots))
        rate = statistics.median(drained.rate for drained in ours)
        floor = statistics.median(floor.rate for floor in floors)
        rows.append(Row(f"drain of {ISSUES} issues, {_slots(slots)}", rate, "issues/s", floor, FLOOR, _cpu(*ours)))
        if slots == 1:
            gap = statistics.median(gap for drained in ours for gap in drained.gaps)
            bare = statistics.median(gap for floor in floors for gap in floor.gaps)
            rows.append(Row("end of an issue's agent to the next one's", gap * 1e3, "ms", bare * 1e3, FLOOR))
        if slots == 10:
            cpu = statistics.median(drained.cpu for drained in ours)
            bare = statistics.median(floor.cpu for floor in floors)
            rows.append(Row("CPU of the service per issue, 10 slots", cpu * 1e3, "ms", bare * 1e3, FLOOR))
    return rows


def sizes(bench: Bench) -> list[Row]:
    """The rate must not fall with the number of issues; each is compared with 500 in units of its own floor."""
    rows: list[Row] = []
    program = bench.program.done
    limit = 10.0 if bench.quick else 45.0
    of_500 = 0.0
    for count in (ISSUES, *SIZES):
        folder = bench.root / f"size-{count}"
        before = spawned(program, folder / "before", ISSUES, 10)
        ours = drained(folder / "ours", program, count, 10, limit)
        after = spawned(program, folder / "after", ISSUES, 10)
        floor = (before.rate + after.rate) / 2
        of_500 = of_500 or ours.rate / floor
        note = f"{_cpu(ours)}; {ours.rate / floor / of_500:.2f} of the rate with {ISSUES}"
        if ours.ended < count:
            note += f", by the first {ours.ended:,}"
        if count != ISSUES:
            rows.append(Row(f"drain of {count:,} issues, 10 slots", ours.rate, "issues/s", floor, FLOOR, note))
    return rows


def _cpu(*drains: Drained) -> str:
    """What a busy machine changes least."""
    return f"{statistics.median(drained.cpu for drained in drains) * 1e3:.1f} ms of CPU per issue"


def _slots(count: int) -> str:
    return f"{count} slot{'s' if count > 1 else ''}"
