"""What it costs to look: 500 sessions that wait, a file that did not change, each command on a large store."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio

from sortie.core import events
from sortie.store import Store, queries
from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import TrackerSettings

from .bench import Bench
from .floor import bare_python, seconds, side_by_side
from .project import Project, memory_mb
from .table import Row

SESSIONS = 500
ISSUES = 10_000
RUNS = 10_000
COMMANDS = ("--version", "--help", "validate", "status", "history", "why B-1", "logs B-1", "doctor")


def sessions(bench: Bench) -> list[Row]:
    """Memory and CPU of the service while 500 agents say nothing."""
    project = Project(bench.root / "sessions", command=bench.program.hold, slots=SESSIONS)
    project.write_issues(SESSIONS)
    service = project.start()
    service.until_stamped(SESSIONS)
    time.sleep(3)  # what belongs to the starts is over
    resident, share = (memory_mb(service.pid, what) for what in ("Rss", "Pss"))
    waited = 10 if bench.quick else 60
    before = service.cpu()
    time.sleep(waited)
    cpu = (service.cpu() - before) * 60 / waited
    service.end()
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as python:
        assert python.stdout
        python.stdout.readline()
        bare, bare_share = (memory_mb(python.pid, what) for what in ("Rss", "Pss"))
        python.communicate(b"\n")
    note = f"{waited} s, scaled" if bench.quick else ""
    return [
        Row(f"{SESSIONS} live sessions: memory (RSS)", resident, "MB", bare, "a bare Python"),
        Row(f"{SESSIONS} live sessions: memory (PSS)", share, "MB", bare_share, "a bare Python"),
        Row(f"{SESSIONS} live sessions: CPU in a minute", cpu, "s", note=note),
    ]


def look(bench: Bench) -> list[Row]:
    """One more look at a file of 10,000 issues that nobody touched since the last."""
    project = Project(bench.root / "look", command=bench.program.done, slots=1)
    project.write_issues(ISSUES)
    ours, floor = anyio.run(_looks, project.directory)
    return [Row(f"look at {ISSUES:,} unchanged issues", ours * 1e3, "ms", floor * 1e3, "`os.stat`")]


async def _looks(directory: Path) -> tuple[float, float]:
    tracker = FileTracker.from_settings(TrackerSettings(kind="file", active_states=("todo",), base=directory))
    time.sleep(0.1)  # a file that changed just now may change again within the same tick of its clock
    assert len((await tracker.fetch_candidates()).issues) == ISSUES
    ours, floors = [], []
    for _ in range(200):
        before = time.perf_counter()
        await tracker.fetch_candidates()
        ours.append(time.perf_counter() - before)
        floors.append(seconds(partial(os.stat, directory / "issues.json")))
    return statistics.median(ours), statistics.median(floors)


def commands(bench: Bench) -> list[Row]:
    """Every command that looks, on a store in which 10,000 issues had one run each."""
    project = Project(bench.root / "commands", command=bench.program.done, slots=1)
    project.write_issues(1)
    project.run_until_idle()
    anyio.run(_multiply_runs, project.directory / ".sortie.db")
    sortie = partial(subprocess.run, cwd=project.directory, capture_output=True, check=True)
    shown = sortie([sys.executable, "-m", "sortie", "status", "--json"])
    assert json.loads(shown.stdout)["totals"]["runs"] == {"succeeded": RUNS}
    rows = []
    for words in COMMANDS:
        command = partial(sortie, [sys.executable, "-m", "sortie", *words.split()])
        ours, floor = side_by_side(command, bare_python, 2 * bench.rounds + 1)
        note = f"{_cpu_of(command) * 1e3:.0f} ms of CPU against {_cpu_of(bare_python) * 1e3:.0f}"
        rows.append(Row(f"`sortie {words}`", ours * 1e3, "ms", floor * 1e3, "`python -c pass`", note))
    return rows


def _cpu_of(command: Callable[[], object]) -> float:
    """Median seconds of CPU of a process and all below it, which a busy machine changes least."""
    measured = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        measured.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(measured)


async def _multiply_runs(database: Path) -> None:
    """The store as if what happened to its one issue had happened to 10,000."""
    async with Store.open(database, holder={}) as store:
        log = await store.read(partial(queries.events, issue_id="1"))
        recorded = [logged.event for logged in log]
        for first in range(2, RUNS + 1, 500):
            numbers = range(first, min(first + 500, RUNS + 1))
            await store.append(*(_copied(event, n) for n in numbers for event in recorded))


def _copied(event: events.AnyEvent, number: int) -> events.AnyEvent:
    """The same of another issue and another run."""
    text = events.encode(event).decode()
    text = text.replace('"issue_id":"1"', f'"issue_id":"{number}"').replace('"id":"1"', f'"id":"{number}"')
    text = text.replace("B-1", f"B-{number}")
    if event.run_id:
        text = text.replace(event.run_id, f"{event.run_id}-{number}")
    return events.decode(text)
