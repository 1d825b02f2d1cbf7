"""How long one waits: for the next turn, for the first agent after a start, for a new issue, after `kill -9`."""

from __future__ import annotations

import json
import statistics
import time

from .bench import Bench
from .drains import FLOOR
from .floor import first_instruction, spawned
from .project import Project
from .table import Row

TURNS = 200
KILLED = 20
FROM_PYTHON = "`posix_spawn` from a bare Python"


def turns(bench: Bench) -> list[Row]:
    """From the last instruction of a turn to the first of the next one of the same session."""
    gaps: list[float] = []
    floors: list[float] = []
    for n in bench.repeated():
        folder = bench.root / f"turns-{n}"
        project = Project(folder / "ours", command=bench.program.turn, slots=1, max_turns=TURNS)
        project.write_issues(1)
        floors += spawned(bench.program.turn, folder / "before", TURNS, 1).gaps
        service = project.start()
        service.until_stamped(2 * TURNS)
        service.end()
        floors += spawned(bench.program.turn, folder / "after", TURNS, 1).gaps
        gaps += project.stamps.gaps()[: TURNS - 1]
    return [
        Row(f"end of a turn to start of the next, {name}", pick(gaps) * 1e3, "ms", pick(floors) * 1e3, FLOOR)
        for name, pick in (("median", statistics.median), ("p95", _p95))
    ]


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def start(bench: Bench) -> list[Row]:
    """From the start of `sortie run` to the first instruction of the first agent."""
    measured, floors = [], []
    for n in range(3 * bench.rounds + 2):
        project = Project(bench.root / f"start-{n}", command=bench.program.done, slots=1)
        project.write_issues(1)
        service = project.start("--until-idle")
        service.wait()
        measured.append(project.stamps.starts()[0] - service.started)
        floors.append(first_instruction(bench.program.done, project.directory / "floor", from_python=True))
    seconds, floor = statistics.median(measured), statistics.median(floors)
    return [Row("start of the service to the first agent", seconds * 1e3, "ms", floor * 1e3, FROM_PYTHON)]


def written(bench: Bench) -> list[Row]:
    """From an issue appearing in the file to the first instruction of its agent, with nothing else to do."""
    project = Project(bench.root / "written", command=bench.program.done, slots=10)
    project.write_issues(1)
    service = project.start()
    measured, floors = [], []
    for n in range(1, 4 * bench.rounds + 4):
        service.until_stamped(2 * n)
        service.until(lambda: set(project.states()) == {"review"})
        time.sleep(0.3 + (n % 10) * 0.025)  # idle, and at no fixed moment of any rhythm it may have
        added_at = _add_issue(project, n + 1)
        service.until_stamped(2 * n + 1)
        measured.append(project.stamps.starts()[-1] - added_at)
        floors.append(first_instruction(bench.program.done, project.directory / "floor"))
    service.end()
    seconds, floor = statistics.median(measured), statistics.median(floors)
    return [Row("issue written to agent started", seconds * 1e3, "ms", floor * 1e3, FLOOR)]


def _add_issue(project: Project, number: int) -> float:
    """As an editor saves: a new file in the place of the old one."""
    path = project.directory / "issues.json"
    added = {"id": str(number), "identifier": f"B-{number}", "title": f"Issue {number}", "state": "todo"}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([*json.loads(path.read_text()), added], indent=1))
    at = time.monotonic()
    fresh.rename(path)
    return at


def kill(bench: Bench) -> list[Row]:
    """SIGKILL with 20 agents at work; from the next start until all are at work again, and none of them twice."""
    measured, floors, twice = [], [], 0
    for n in bench.repeated():
        project = Project(bench.root / f"kill-{n}", command=bench.program.hold, slots=KILLED)
        project.write_issues(KILLED)
        service = project.start()
        service.until_stamped(KILLED)
        service.kill()
        service = project.start()
        service.until_stamped(2 * KILLED)
        measured.append(project.stamps.starts()[-1] - service.started)
        twice += sum(stamp.what == "X" for stamp in project.stamps)
        service.end()
        floor = first_instruction(bench.program.done, project.directory / "floor", from_python=True, count=KILLED)
        floors.append(floor)
    seconds, floor = statistics.median(measured), statistics.median(floors)
    return [
        Row(f"kill -9 with {KILLED} agents: start to all at work", seconds * 1e3, "ms", floor * 1e3, FROM_PYTHON),
        Row(f"kill -9 with {KILLED} agents: issues that ran twice at once", twice, "issues"),
    ]
