"""What a service tells of itself every second stays small, and can be told, whatever others wrote into it."""

from __future__ import annotations

import os
import socket

import anyio
import msgspec

from sortie.core import events as ev
from sortie.core.conclude import Outcome
from sortie.core.policy import Spent
from sortie.engine.active_run import LONGEST_LAST_LINE
from sortie.engine.dashboard import Dashboard
from sortie.engine.ending import LONGEST_REASON
from sortie.engine.report import LiveReport
from sortie.errors import TrackerError
from sortie.runs.messages import Ended, Line, TurnAsked, TurnCompleted
from sortie.testing.fake_host import FakeHost
from sortie.workflow.config import ServerConfig

from ..sources.listing_tracker import issue
from .tracker_scene import Scene

LONG = "x" * 10_000_000


async def reported(its: Scene, is_so) -> LiveReport:
    with anyio.fail_after(20):
        await its.heard.wait(ev.Opened)
        while not ((report := its.orchestrator.report()) and is_so(report)):
            await anyio.sleep(0.01)
    return report


async def test_a_run_whose_agent_says_an_endless_line_makes_no_endless_report(tracked):
    its = tracked(issue("a", title=LONG, url=f"https://tracker.example/{LONG}"))

    async def play(_):
        yield TurnAsked(turn=1)
        yield Line(source="agent", text=f"the beginning {LONG}")
        await anyio.sleep_forever()

    its.host = FakeHost(play)
    async with anyio.create_task_group() as tasks:
        its.start(tasks)
        await its.heard.wait(ev.TurnStarted)
        report = await reported(its, lambda report: report.running[0].last_line)
        tasks.cancel_scope.cancel()
    [run] = report.running
    assert run.last_line.startswith("the beginning x") and len(run.last_line) == LONGEST_LAST_LINE
    assert run.url == "", "half an address leads nowhere"
    assert len(msgspec.json.encode(report)) < 10_000
    [log] = (its.directory / "store.logs").glob("*.log")
    assert log.stat().st_size > len(LONG), "the log of the run has all of it"


async def test_what_agents_and_trackers_say_of_their_failures_is_bounded_too(tracked):
    its = tracked(issue("a"), issue("b"))
    ends = iter(
        [
            Outcome(status="succeeded", turns=1, soft_stop="blocked", reason=f"why {LONG}"),
            Outcome(status="failed", turns=1, error=f"why {LONG}", retryable=True),
        ]
    )

    async def play(_):
        yield TurnAsked(turn=1)
        yield TurnCompleted(turn=1, signal="blocked")
        yield Ended(outcome=next(ends))

    its.host = FakeHost(play)
    async with anyio.create_task_group() as tasks:
        its.start(tasks)
        await reported(its, lambda report: report.waiting and report.parked)
        its.tracker.limit, its.tracker.limits = TrackerError(TrackerError.API, f"why {LONG}"), ("list", "states")
        report = await reported(its, lambda report: report.last_look_error)
        tasks.cancel_scope.cancel()
    said = (report.waiting[0].retry.error, report.parked[0].park.reason, report.last_look_error)
    assert [text[:5] for text in said] == ["why x"] * 3
    assert len(msgspec.json.encode(report)) < 10_000
    kept = its.stored()
    assert {len(item.retry.error) for item in kept.waiting.values()} == {LONGEST_REASON}
    assert {len(item.park.reason) for item in kept.parked.values()} == {LONGEST_REASON}


async def test_half_a_character_in_a_report_does_not_end_the_dashboard(tmp_path):
    """A tracker of somebody's own may hand one in; neither JSON nor UTF-8 can hold it."""
    announced = anyio.Event()
    report = LiveReport(
        now=1.0, running=(), waiting=(), parked=(), ready=0, slots=1, today=Spent(), last_look_error="half \ud800"
    )
    listening = socket.create_server(("127.0.0.1", 0))
    dashboard = Dashboard(
        listening, ServerConfig(), tmp_path / "store.db", tmp_path / "WORKFLOW.md", dict(os.environ)
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dashboard.run, lambda: report, lambda: anyio.from_thread.run_sync(announced.set))
            await announced.wait()
            tasks.cancel_scope.cancel()
