"""What the engine counts of itself, and what it tells of a run while that goes on."""

from __future__ import annotations

import os
from contextlib import closing

import anyio
import msgspec
import pytest

from sortie.core import events as ev
from sortie.core.conclude import Outcome
from sortie.core.model import Usage
from sortie.core.policy import Spent
from sortie.engine.report import LiveReport
from sortie.engine.service_metrics import ServiceMetrics
from sortie.errors import TrackerError
from sortie.runs.messages import Ended, TurnAsked, TurnCompleted, UsageTotal, WorkspaceReady
from sortie.sources.guarded import GuardedSource
from sortie.sources.issues import IssueSource
from sortie.store import Store
from sortie.store.connect import connect_readonly
from sortie.store.counters import Histogram, counters, histograms
from sortie.testing.fake_host import FakeHost
from sortie.trackers.tracker import GuardedTracker
from sortie.workflow.reloader import Reloader

from ..sources.listing_tracker import ListingTracker, issue
from .tracker_scene import Scene

OPERATIONS = {"list": "fetch_candidates", "full": "fetch_issue", "move": "transition", "comment": "comment"}


def kept(its: Scene) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    with closing(connect_readonly(its.directory / "store.db")) as db:
        return counters(db)


def looks_timed(its: Scene) -> Histogram:
    with closing(connect_readonly(its.directory / "store.db")) as db:
        return histograms(db)["poll_duration_seconds"][()]


async def test_looks_and_calls_are_counted_over_restarts(tracked):
    its = tracked()
    listing = ListingTracker([issue("a"), issue("b")])
    its.tracker = GuardedTracker(listing)
    looks = 0
    for _ in range(2):
        with anyio.fail_after(20):
            await its.run(until_idle=True)
        found = kept(its)
        made = {
            operation: found["tracker_requests"].get((("operation", operation), ("result", "success")))
            for operation in OPERATIONS.values()
        }
        assert made == {operation: listing.calls[kind] for kind, operation in OPERATIONS.items()}
        assert found["poll_cycles"] == {(("result", "success"),): listing.calls["list"]}
        assert looks_timed(its).buckets[-1] == ("+Inf", listing.calls["list"])
        assert listing.calls["list"] > looks
        looks = listing.calls["list"]
    assert found["handoff_transitions"] == {(("result", "success"),): 2.0}
    assert found["worker_exits"] == {(("exit_type", "soft_stop"),): 2.0}
    assert found["tracker_comments"] == {
        (("lifecycle", "completion"), ("result", "success")): 2.0,
        (("lifecycle", "dispatch"), ("result", "success")): 2.0,
    }


async def test_a_look_that_fails_is_counted_and_told(tracked):
    its = tracked()
    listing = ListingTracker([])
    its.tracker = GuardedTracker(listing)
    listing.limit, listing.limits = TrackerError(TrackerError.API, "the server is on fire."), ("list",)
    async with its.running():
        await its.heard.wait(ev.Opened)
        while not ((report := its.orchestrator.report()) and report.last_look_error):
            await anyio.sleep(0.01)
    assert "the server is on fire." in report.last_look_error
    assert kept(its)["poll_cycles"][("result", "error"),] == listing.calls["list"]
    assert kept(its)["tracker_requests"] == {
        (("operation", "fetch_candidates"), ("result", "error")): listing.calls["list"]
    }


async def test_a_service_that_gives_up_has_counted_what_it_tried(tracked):
    its = tracked()
    listing = ListingTracker([])
    its.tracker = GuardedTracker(listing)
    listing.limit, listing.limits = TrackerError(TrackerError.API, "the server is on fire."), ("list",)
    with anyio.fail_after(30), pytest.raises(ExceptionGroup):
        await its.run(until_idle=True)
    assert kept(its)["poll_cycles"] == {(("result", "error"),): listing.calls["list"]}


async def test_a_report_tells_of_the_service_and_of_each_run_and_the_model_is_remembered(tracked):
    its, goes_on = tracked(issue("a")), anyio.Event()

    async def play(_):
        yield WorkspaceReady(key="A", path="/w/A")
        yield TurnAsked(turn=1)
        yield UsageTotal(total=Usage(7, 3), model="opus")
        await goes_on.wait()
        yield TurnCompleted(turn=1, signal="needs-human-review")
        outcome = Outcome(status="succeeded", turns=1, soft_stop="needs-human-review")
        yield Ended(outcome=outcome, usage=Usage(7, 3), model="opus-2")

    its.host = FakeHost(play)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            its.start(tasks)
            await its.heard.wait(ev.TurnStarted)
            while not (report := its.orchestrator.report()).running[0].model:
                await anyio.sleep(0.01)
            goes_on.set()
            await its.heard.wait(ev.Settled)
            its.orchestrator.drain()
            assert its.orchestrator.report().draining
    [run] = report.running
    assert (run.agent, run.model, run.workspace) == ("command", "opus", "/w/A")
    assert (report.pid, report.draining, report.last_look_error) == (os.getpid(), False, "")
    assert report.last_look_at == its.clock.now()
    assert [charged.model for charged in its.heard.all(ev.Charged)] == ["opus"]
    with closing(connect_readonly(its.directory / "store.db")) as db:
        assert db.execute("SELECT model FROM run_history").fetchall() == [("opus-2",)]
        rows = db.execute("SELECT model, runs, unmeasured, input_tokens FROM usage ORDER BY model").fetchall()
    assert rows == [("opus", 0, 0, 7), ("opus-2", 1, 0, 0)]


async def test_a_report_of_an_earlier_version_can_be_read():
    spoken = msgspec.json.encode(
        {"now": 1.0, "running": [], "waiting": [], "parked": [], "ready": 0, "slots": 1, "today": Spent()}
    )
    assert msgspec.json.decode(spoken, type=LiveReport).pid == 0


@pytest.mark.parametrize("result", ["success", "error", "skipped"])
async def test_moves_to_the_state_of_work_in_progress_are_counted(tracked, result):
    its = tracked(issue("a"))
    workflow = its.directory / "WORKFLOW.md"
    with_progress = "active_states: [todo, doing]\n  in_progress_state: doing"
    workflow.write_text(workflow.read_text().replace("active_states: [todo]", with_progress))

    async def play(_):
        yield TurnAsked(turn=1)
        if result == "error":
            its.tracker.limit, its.tracker.limits = TrackerError(TrackerError.API, "no."), ("move",)
        elif result == "skipped":
            its.tracker.change("a", state="review")
        yield TurnCompleted(turn=1, signal="needs-human-review")
        yield Ended(outcome=Outcome(status="succeeded", turns=1, soft_stop="needs-human-review"))

    its.host = FakeHost(play)
    with anyio.fail_after(20):
        await its.run(until_idle=True)
    assert kept(its)["dispatch_transitions"] == {(("result", result),): 1.0}


async def test_a_loop_that_somebody_blocks_is_late():
    figures = ServiceMetrics()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(figures.measure_lag, 0.01)
            await anyio.lowlevel.checkpoint()
            blocked_until = anyio.current_time() + 0.05
            while anyio.current_time() < blocked_until:
                pass  # as somebody would who has no place in a loop
            while not figures.loop_lag:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert figures.loop_lag >= 0.03


async def test_what_the_store_does_not_take_is_kept_for_the_next_time(tmp_path):
    figures = ServiceMetrics()
    figures.looked(1.0, 0.5, "")
    async with Store.open(tmp_path / "store.db", holder={}) as store:
        pass
    await figures.keep(store)
    assert figures.counts
    async with Store.open(tmp_path / "store.db", holder={}) as store:
        await figures.keep(store)
    assert not figures.counts
    with closing(connect_readonly(tmp_path / "store.db")) as db:
        assert counters(db)["poll_cycles"] == {(("result", "success"),): 1.0}


@pytest.mark.parametrize("nonsense", [None, 5, {"fetch": 1}, {("a", "b"): "many"}])
def test_a_source_that_counts_nonsense_has_asked_nothing(nonsense, tracked):
    its = tracked()

    class Miscounted(IssueSource):
        def requests_made(self):
            return nonsense

    source = GuardedSource(Miscounted(Reloader(its.directory / "WORKFLOW.md", environ={}), {}, tracker=its.tracker))
    figures = ServiceMetrics()
    figures.collect([source])
    assert not figures.counts


async def test_the_model_of_a_run_outlives_the_orchestrator_that_heard_of_it(tracked):
    its = tracked(issue("a"))
    run = {"at": its.clock.now(), "issue_id": "a", "run_id": "r1"}
    async with Store.open(its.directory / "store.db", holder={}) as store:
        await store.append(
            ev.Claimed(**run, identifier="A", attempt=1, agent="command", day="2026-03-30"),
            ev.TurnStarted(**run, turn=1, day="2026-03-30"),
            ev.Charged(**run, usage=Usage(5), day="2026-03-30", model="opus"),
        )
    with anyio.fail_after(20):
        await its.run(until_idle=True)
    with closing(connect_readonly(its.directory / "store.db")) as db:
        assert db.execute("SELECT model FROM run_history WHERE run_id = 'r1'").fetchone() == ("opus",)
