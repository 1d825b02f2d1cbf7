"""The series of `/metrics` that are there before anything happens: each of them can rise, and no other comes up."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from sortie.core import events as ev
from sortie.core.model import ParkKind, RetryKind, RunStatus
from sortie.core.narrate import RULES
from sortie.errors import TrackerError
from sortie.trackers.tracker import GuardedTracker
from sortie.web.metrics_catalogue import COUNTERS, OPERATIONS

from .live_server import new_store, served
from .test_metrics import values


class Refusing:
    """A tracker that can do nothing."""

    def __getattr__(self, _: str) -> Any:
        async def refuse(*_: object) -> None:
            raise TrackerError(TrackerError.AUTH, "no")

        return refuse


async def test_every_operation_that_is_known_is_one_that_is_counted():
    tracker = GuardedTracker(Refusing())
    for call in (
        tracker.fetch_candidates(),
        tracker.fetch_issue("1"),
        tracker.fetch_states(["1"]),
        tracker.transition("1", "Done"),
        tracker.comment("1", "done"),
    ):
        with pytest.raises(TrackerError):
            await call
    assert {operation for operation, _ in tracker.requests_made()} == {*OPERATIONS}


def test_every_rule_and_every_reason_for_a_next_try_is_known():
    known = {one.name: {name for (name,) in one.series()} for one in COUNTERS if len(one.labels) == 1}
    assert known["candidate_holds"] == {rule.replace("-", "_") for rule in RULES}
    # What a person asks for is counted as that.
    assert known["retries"] == {*get_args(RetryKind)} - {"unparked", "started"} | {"stall", "operator"}
    assert known["issue_parks"] == {*get_args(ParkKind)}


def test_what_becomes_of_runs_is_counted_in_series_that_were_known_and_in_each_of_them(tmp_path):
    stopped: dict[str, Any] = {"status": "cancelled", "stop": "budget"}
    endings: list[dict[str, Any]] = [
        *({"status": status} for status in get_args(RunStatus)),
        *({**stopped, "error": f"all of {limit} used"} for limit in ("1 turns", "1 tokens", "$1.00")),
        {"status": "succeeded", "soft_stop": "blocked"},
    ]
    events: list[ev.AnyEvent] = []
    for number, ending in enumerate(endings):
        about: dict[str, Any] = {"at": 1.0, "issue_id": f"I-{number}", "run_id": f"r-{number}"}
        view = ev.View(id=f"I-{number}", identifier=f"I-{number}", title="t", state="To Do")
        comments = ("dispatch", "completion", "failure", "answer", "report")
        events += [
            ev.IssueSeen(at=1.0, issue_id=f"I-{number}", view=view),
            ev.Claimed(identifier=f"I-{number}", attempt=1, agent="codex", day="2026-11-18", **about),
            *(ev.Stopping(cause=cause, **about) for cause in ("terminal", "inactive", "gone")),
            ev.RunEnded(turns=0, **ending, **about),
            *(
                ev.EffectDone(effect_id=f"{number}.{name}", verb="comment", ok=is_done, **about)
                for name in comments
                for is_done in (True, False)
            ),
            ev.WorkspaceGone(key=f"I-{number}", **about),
        ]
    nothing, store = new_store(tmp_path / "nothing.db"), new_store(tmp_path / "store.db", *events)
    with served(nothing) as before, served(store) as after:
        known, counted = (values(server.get("/metrics").text) for server in (before, after))
    assert counted.keys() == known.keys()
    about_runs = (
        "dispatches",
        "worker_exits",
        "runs_stopped_by_budget",
        "reconciliation_actions",
        "tracker_comments",
    )
    names = {f"sortie_{name}_total" for name in about_runs}
    assert [series for series, value in counted.items() if series[0] in names and not value] == []
