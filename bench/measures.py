"""The measurements, each a function from a scratch directory to rows of value and ratio."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import anyio
from sortie.engine.gather import look

from sortie.core.decide import Tick, decide
from sortie.core.policy import Policy
from sortie.core.schedule import Schedule
from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import TrackerSettings

from .baseline import bare_python, bare_spawn, median_seconds
from .project import Project, cpu_seconds, end, resident_mb
from .row import Row
from .sidecar import sidecar
from .streams import parsers, streaming

SIGNALS_AT_ONCE = "cat >/dev/null; mkdir -p .sortie; echo needs-human-review > .sortie/status\n"
TAKES_A_TURN = "cat >/dev/null\n"
SLEEPS = "cat >/dev/null; exec sleep 1000\n"


def drain(root: Path) -> list[Row]:
    """Issues per second with an agent that only signals, against the rate of bare spawns one after the other."""
    spawn = bare_spawn()
    rows = []
    for slots, count in ((1, 100), (10, 400), (50, 600)):
        project = Project(root / f"drain-{slots}", agent=SIGNALS_AT_ONCE, slots=slots)
        project.write_issues(count)
        service = project.start("--until-idle")
        project.wait_for_runs(1)
        seconds = project.wait_for_runs(count)
        service.wait()
        rate = (count - 1) / seconds
        rows.append(
            Row(
                f"issues drained with {slots} slot{'s' if slots > 1 else ''}",
                rate,
                "issues/s",
                rate * spawn,
                "bare spawn rate",
            )
        )
    return rows


def turn(root: Path) -> list[Row]:
    """What one turn costs beyond its own process."""
    turns = 200
    project = Project(root / "turn", agent=TAKES_A_TURN, slots=1, max_turns=turns)
    project.write_issues(1)
    service = project.start()
    project.wait_for_events("turn")
    cpu_before = cpu_seconds(service.pid)
    project.wait_for_runs(1)
    cpu = (cpu_seconds(service.pid) - cpu_before) / turns
    end(service)
    first = project.query("SELECT min(at) FROM events WHERE kind = 'turn'")[0][0]
    last = project.query("SELECT max(at) FROM events WHERE kind = 'turn_end'")[0][0]
    agent = ["sh", "-c", f"sh {project.directory}/agent.sh"]
    bare = median_seconds(lambda: subprocess.run(agent, stdin=subprocess.DEVNULL, check=True), 60)
    whole = (last - first) / turns
    return [
        Row("one turn of a trivial agent", whole * 1e3, "ms", whole / bare, "the agent alone"),
        Row("orchestrator overhead per turn", (whole - bare) * 1e3, "ms", (whole - bare) / bare, "the agent alone"),
        Row("service CPU per turn", cpu * 1e3, "ms", cpu / bare, "the agent alone"),
    ]


def latency(root: Path) -> list[Row]:
    """From ready to started: a slot becomes free for a waiting issue; a new issue appears in the file."""
    spawn = bare_spawn()
    project = Project(root / "latency", agent=SIGNALS_AT_ONCE, slots=1)
    project.write_issues(60)
    project.run_until_idle()
    settled = [at for (at,) in project.query("SELECT at FROM events WHERE kind = 'settle' ORDER BY seq")]
    started = [at for (at,) in project.query("SELECT at FROM events WHERE kind = 'process' ORDER BY seq")]
    freed = statistics.median(start - free for free, start in zip(settled, started[1:], strict=False))
    service = project.start()
    project.wait_for_events("opened", 2)
    noticed = []
    for n in range(100, 110):
        time.sleep(0.3 + (n % 10) * 0.025)  # spread over the rhythm in which the service looks at the file
        written = time.time()
        project.write_issues(1, first=n)
        project.wait_for_runs(1, f"issue_id = '{n}'")
        started_at = project.query(f"SELECT min(at) FROM events WHERE kind = 'process' AND issue_id = '{n}'")[0][0]
        noticed.append(started_at - written)
    end(service)
    new = statistics.median(noticed)
    return [
        Row("slot freed to next agent started", freed * 1e3, "ms", freed / spawn, "a bare spawn"),
        Row("issue written to agent started", new * 1e3, "ms", new / spawn, "a bare spawn"),
    ]


def memory(root: Path) -> list[Row]:
    rows = []
    empty = 0.0
    for sessions in (0, 10, 100, 500):
        project = Project(root / f"memory-{sessions}", agent=SLEEPS, slots=max(sessions, 1))
        project.write_issues(sessions)
        service = project.start()
        project.wait_for_events("opened")
        project.wait_for_sessions(sessions)
        used = resident_mb(service.pid)
        end(service)
        if sessions == 0:
            empty = used
            rows.append(Row("service with no session", used, "MB", 1.0, "the idle service"))
            continue
        rows.append(Row(f"service with {sessions} live sessions", used, "MB", used / empty, "the idle service"))
        rows.append(
            Row(
                f"each of {sessions} sessions",
                (used - empty) * 1024 / sessions,
                "KB",
                used / empty,
                "the idle service",
            )
        )
    return rows


def recovery(root: Path) -> list[Row]:
    """SIGKILL with 100 open runs; from the next start until every orphan is ended and every run works again."""
    python = bare_python()
    project = Project(root / "recovery", agent=SLEEPS, slots=100)
    project.write_issues(100)
    service = project.start()
    project.wait_for_sessions(100)
    os.kill(service.pid, signal.SIGKILL)
    service.wait()
    before = time.perf_counter()
    service = project.start()
    project.wait_for_runs(100)
    closed = time.perf_counter() - before
    project.wait_for_sessions(100)
    working = time.perf_counter() - before
    end(service)
    return [
        Row("recovery: 100 orphans ended, runs closed", closed, "s", closed / python, "a bare Python start"),
        Row("recovery: all 100 at work again", working, "s", working / python, "a bare Python start"),
    ]


def tick(root: Path) -> list[Row]:
    """One look at the tracker and one decision, over issues that nothing has happened to since the last."""
    spawn = bare_spawn()
    rows = []
    for count in (100, 1_000, 10_000):
        project = Project(root / f"tick-{count}", agent=SLEEPS, slots=10)
        project.write_issues(count)
        seconds = anyio.run(_quiet_tick, project.directory)
        rows.append(Row(f"tick over {count:,} candidates", seconds * 1e3, "ms", seconds / spawn, "a bare spawn"))
    return rows


async def _quiet_tick(directory: Path) -> float:
    policy = Policy(active_states=("todo",), terminal_states=("done",), handoff_state="review", max_concurrent=0)
    tracker = FileTracker.from_settings(TrackerSettings(kind="file", active_states=("todo",), base=directory))
    schedule = Schedule(policy)
    measured = []
    for _ in range(7):
        before = time.perf_counter()
        for event in (await look(tracker, schedule, 0.0, ())).events:
            schedule.apply(event)
        for action in decide(schedule, Tick(now=0.0, candidates_known=True)):
            schedule.skips[action.issue_id] = (getattr(action, "rule", ""), getattr(action, "detail", ""))
        measured.append(time.perf_counter() - before)
    return statistics.median(measured[1:])


def help_screen(root: Path) -> list[Row]:
    python = bare_python()
    argv = [sys.executable, "-m", "sortie", "--help"]
    seconds = median_seconds(lambda: subprocess.run(argv, stdout=subprocess.DEVNULL, cwd=root, check=True), 15)
    return [Row("sortie --help", seconds * 1e3, "ms", seconds / python, "a bare Python start")]


ALL = {
    "drain": drain,
    "turn": turn,
    "latency": latency,
    "memory": memory,
    "recovery": recovery,
    "tick": tick,
    "help": help_screen,
    "sidecar": sidecar,
    "parsers": parsers,
    "streaming": streaming,
}
