"""The tracker of a server that has no orchestrator to ask: kept from call to call, as new as the workflow."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sortie.core.model import Issue
from sortie.store.call_use import CallFigures, write_call_figures
from sortie.store.schema import MIGRATIONS
from sortie.tools.calls import Cancellation
from sortie.tools.local_tracker import LocalTracker
from sortie.trackers.tracker import TrackerSettings

from .scene import DEADLINE, WORKFLOW, wait_until

OURS = WORKFLOW.replace("kind: file", "kind: counting").replace("file:\n  path: issues.json\n", "")
BROKEN = "no front matter"


class Counting:
    """A tracker of another package: it knows how many of it there are, and waits where it is told to."""

    built: list[Counting] = []  # noqa: RUF012 - of all of them

    def __init__(self, settings: TrackerSettings) -> None:
        self.active = settings.active_states
        self.calls_per_minute = settings.calls_per_minute
        self.closed = 0
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.meeting = threading.Barrier(3)
        self.built.append(self)

    @classmethod
    def from_settings(cls, settings: TrackerSettings) -> Counting:
        return cls(settings)

    @classmethod
    def check(cls, settings: TrackerSettings) -> list[tuple[str, str]]:
        return []

    async def fetch_issue(self, issue_id: str) -> Issue:
        assert not self.closed
        self.entered.set()
        match issue_id:
            case "waits":
                await to_thread.run_sync(self.go_on.wait, DEADLINE)
            case "for ever":
                await anyio.sleep_forever()
            case "blocks":
                self.go_on.wait(DEADLINE)
            case "meets":
                await to_thread.run_sync(self.meeting.wait, DEADLINE)
        assert not self.closed
        return Issue(id=issue_id, identifier="PROJ-1", title="T", state=self.active[0])

    async def aclose(self) -> None:
        self.closed += 1
        raise RuntimeError("it does not like to end")


@pytest.fixture
def built(tmp_path, monkeypatch) -> list[Counting]:
    """Those that were made, once the kind is installed the way an installer does it."""
    metadata = tmp_path / "site" / "counting-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[sortie.trackers]\ncounting = {__name__}:Counting\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    Counting.built.clear()
    return Counting.built


@pytest.fixture
def tracker(project, built) -> Iterator[LocalTracker]:
    project.workflow.write_text(OURS)
    found = LocalTracker(str(project.workflow), "abc123")
    yield found
    assert found.close(DEADLINE)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def fetch(tracker: LocalTracker, issue_id: str = "1", limit: float = DEADLINE) -> Any:
    return tracker.call({"operation": "fetch_issue", "issue_id": issue_id}, Cancellation(), limit)


def state(answer: Any) -> str:
    return str(answer["data"]["state"])


def test_one_tracker_serves_all_calls_and_is_closed_at_the_end(tracker, built):
    assert [fetch(tracker)["success"] for _ in range(3)] == [True] * 3
    assert [one.closed for one in built] == [0]
    assert tracker.close(DEADLINE)
    assert [one.closed for one in built] == [1]


def test_a_tool_server_has_a_part_of_the_calls_that_are_allowed_in_a_minute(tracker, built):
    fetch(tracker)
    assert built[0].calls_per_minute == 120 / 4


def test_while_the_service_leaves_the_tracker_alone_so_do_tools(project, built):
    project.workflow.write_text(OURS)
    tracker = LocalTracker(str(project.workflow), "abc123", str(project.database))
    with closing(sqlite3.connect(project.database, isolation_level=None)) as store:
        for later in MIGRATIONS[1:]:
            store.executescript(later)
        for held_until, expected in ((None, True), (time.time() + 60, False), (time.time() - 1, True)):
            write_call_figures(store, CallFigures(as_of=0.0, made=0, per_minute=120, held_until=held_until))
            answer = fetch(tracker)
            assert answer["success"] is expected
            assert expected or answer["error"]["kind"] == "tracker_rate_limited"
        store.execute("DROP TABLE call_use")
    assert fetch(tracker)["success"], "nobody can tell, so the server is asked"
    project.database.unlink()
    assert fetch(tracker)["success"]
    assert len(built) == 1
    assert tracker.close(DEADLINE)


def test_calls_overlap(tracker, built, threads):
    fetch(tracker)
    calls = [threads.submit(fetch, tracker, "meets") for _ in range(2)]
    built[0].meeting.wait(DEADLINE)
    assert all(call.result(DEADLINE)["success"] for call in calls)
    assert len(built) == 1


def test_first_calls_at_once_build_one_tracker(tracker, built, threads):
    calls = [threads.submit(fetch, tracker) for _ in range(4)]
    assert all(call.result(DEADLINE)["success"] for call in calls)
    assert len(built) == 1


def test_a_changed_workflow_holds_from_the_next_call_on(project, tracker, built):
    assert state(fetch(tracker)) == "To Do"
    project.workflow.write_text(OURS.replace("[To Do, In Progress]", "[Ready]"))
    assert state(fetch(tracker)) == "Ready"
    assert tracker.close(DEADLINE)
    assert [one.closed for one in built] == [1, 1]


def test_a_tracker_is_not_closed_under_a_call(project, tracker, built, threads):
    call: Future[Any] = threads.submit(fetch, tracker, "waits")
    wait_until(lambda: built)
    assert built[0].entered.wait(DEADLINE)
    project.workflow.write_text(OURS.replace("[To Do, In Progress]", "[Ready]"))
    assert state(fetch(tracker)) == "Ready"
    assert built[0].closed == 0
    built[0].go_on.set()
    assert state(call.result(DEADLINE)) == "To Do"


@pytest.mark.parametrize("content", [BROKEN, None])
def test_a_workflow_that_breaks_leaves_the_last_good_one(project, tracker, built, content):
    """As the service does it: somebody is in the middle of an edit."""
    fetch(tracker)
    project.workflow.unlink()
    if content is not None:
        project.workflow.write_text(content)
    assert state(fetch(tracker)) == "To Do"
    assert len(built) == 1
    project.workflow.write_text(OURS.replace("[To Do, In Progress]", "[Ready]"))
    assert state(fetch(tracker)) == "Ready"


def test_a_workflow_that_was_never_good_is_an_error_until_it_is(project, tracker, built):
    project.workflow.write_text(BROKEN)
    for _ in range(2):
        error = fetch(tracker)["error"]
        assert error["kind"] == "internal_error"
        assert error["message"].startswith("The workflow cannot be used: ")
    project.workflow.write_text(OURS)
    assert fetch(tracker)["success"]


def test_a_cancelled_call_ends_and_the_next_has_the_same_tracker(tracker, built, threads):
    fetch(tracker)
    built[0].entered.clear()
    cancellation = Cancellation()
    arguments = {"operation": "fetch_issue", "issue_id": "for ever"}
    call = threads.submit(tracker.call, arguments, cancellation)
    assert built[0].entered.wait(DEADLINE)
    cancellation.request()
    problem = {"kind": "tracker_transport_error", "message": "The call was cancelled."}
    assert call.result(DEADLINE)["error"] == problem
    assert fetch(tracker)["success"]
    assert len(built) == 1


def test_a_tracker_that_blocks_costs_its_own_call_and_no_other(tracker, built):
    assert fetch(tracker)["success"]
    try:
        answer = fetch(tracker, "blocks", limit=0.05)
        problem = {"kind": "tracker_transport_error", "message": "The tracker did not answer within 0.05 s."}
        assert answer["error"] == problem
        assert fetch(tracker)["success"]
    finally:
        built[0].go_on.set()
