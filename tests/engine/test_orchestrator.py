"""The orchestrator as a program of somebody else uses it: nothing to call first, nothing shown that is secret."""

from __future__ import annotations

import json
import os
import pydoc
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

import sortie
from sortie.core import events as ev
from sortie.core.model import Issue
from sortie.core.policy import day_of
from sortie.engine.clock import Clock
from sortie.hosts.local_host import LocalHost
from sortie.testing.fakes import EventCollector
from sortie.testing.list_source import ListSource

DAY = 86_400.0
ITEM = Issue(id="a", identifier="a", title="a", state="todo")

WORKFLOW = """\
---
tracker: {kind: file, active_states: [To Do], handoff_state: In Review}
polling: {interval_ms: 100}
agent: {kind: command, command: "echo at work; mkdir -p .sortie; echo needs-human-review > .sortie/status"}
budget: {per_day: {sessions: 1}}
---
Do {{ issue.title }}
"""


def project(directory: Path, *numbers: int) -> str:
    path = directory / "WORKFLOW.md"
    path.write_text(WORKFLOW)
    add(directory, *numbers)
    return str(path)


def add(directory: Path, *numbers: int) -> None:
    records = [{"id": str(n), "identifier": f"T-{n}", "title": f"Task {n}", "state": "To Do"} for n in numbers]
    (directory / "issues.json").write_text(json.dumps(records))


def test_a_path_as_text_and_nothing_to_call_first(tmp_path):
    """`run` prepares the process itself: what agents leave behind comes to us."""
    code = """
import sys, anyio, ctypes, sortie
summary = anyio.run(lambda: sortie.Orchestrator.for_workflow(sys.argv[1]).run(until_idle=True))
adopts = ctypes.c_int()
ctypes.CDLL(None).prctl(37, ctypes.byref(adopts), 0, 0, 0)
print(summary.clean, adopts.value)
"""
    argv = [sys.executable, "-c", code, project(tmp_path, 1)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "True 1\n", done.stderr


def test_help_shows_no_environment():
    """`help(sortie.Orchestrator)` is shown to colleagues, in notebooks and bug reports."""
    os.environ["SORTIE_TEST_SECRET"] = "hunter2-in-the-environment"
    try:
        for name in sortie.__all__:
            assert "hunter2" not in pydoc.render_doc(getattr(sortie, name)), name
    finally:
        del os.environ["SORTIE_TEST_SECRET"]


async def test_the_day_of_a_budget_and_the_times_in_logs_follow_the_calendar(tmp_path):
    """Set a day ahead, there is a new budget; set back, the old one is used up as it was."""
    heard: list[ev.AnyEvent] = []
    ahead, begun, noon = [0.0], time.monotonic(), time.time() // DAY * DAY + DAY / 2
    clock = Clock(wall=lambda: noon + time.monotonic() - begun + ahead[0])
    orchestrator = sortie.Orchestrator.for_workflow(project(tmp_path, 1), clock=clock, listeners=[heard.append])

    async def event(kind, issue_id):
        while not (found := [e for e in heard if isinstance(e, kind) and e.issue_id == issue_id]):
            await anyio.sleep(0.01)
        return found[-1]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            first = await event(ev.Claimed, "1")
            await event(ev.Settled, "1")
            add(tmp_path, 2)
            assert (await event(ev.Skipped, "2")).rule == "day-budget"
            ahead[0] = DAY
            second = await event(ev.Claimed, "2")
            await event(ev.Settled, "2")
            ahead[0] = 0.0
            add(tmp_path, 3)
            assert (await event(ev.Skipped, "3")).rule == "day-budget"
            orchestrator.drain()
    assert second.day == day_of(second.at) == day_of(first.at + DAY)
    log = tmp_path / ".sortie.logs" / f"{second.run_id}.log"
    assert f"{second.day}T" in log.read_text()


async def test_a_run_that_is_claimed_while_we_are_asked_to_stop_is_stopped_by_us(tmp_path):
    """Its end is our shutdown too: no failure, no session charged."""
    heard: list[ev.AnyEvent] = []

    def listen(event: ev.AnyEvent) -> None:
        heard.append(event)
        if isinstance(event, ev.Claimed):
            orchestrator.drain()

    orchestrator = sortie.Orchestrator.for_workflow(project(tmp_path, 1), listeners=[listen])
    with anyio.fail_after(30):
        summary = await orchestrator.run()
    (ended,) = [event for event in heard if isinstance(event, ev.RunEnded)]
    assert (ended.status, ended.stop) == ("cancelled", "shutdown")
    assert [waiting.retry.kind for waiting in summary.waiting] == ["resume"]
    assert summary.drained


def test_a_directory_stands_for_the_workflow_in_it(tmp_path):
    project(tmp_path)
    summary = anyio.run(lambda: sortie.Orchestrator.for_workflow(str(tmp_path)).run(until_idle=True))
    assert summary.clean


@pytest.mark.anyio
async def test_whoever_hears_of_a_change_can_have_it_looked_at_before_its_time(tmp_path):
    """As a program does that gets a webhook: the look finds out what changed."""
    source = ListSource([ITEM], tmp_path / "work", "true", poll_interval=3600.0)
    events = EventCollector()
    orchestrator = sortie.Orchestrator(
        source, [LocalHost(tmp_path / "db", os.environ)], tmp_path / "db", listeners=[events]
    )
    orchestrator.look()  # there is nothing to look with yet
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            await events.wait(ev.Settled)
            source.items["b"] = replace(ITEM, id="b", identifier="b")
            orchestrator.look()
            await events.wait(ev.Settled, number=2)
            orchestrator.drain()
    assert [event.issue_id for event in events.all(ev.Settled)] == ["a", "b"]
