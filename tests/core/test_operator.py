"""Every command in every situation: what it changes, and what the person is told."""

from __future__ import annotations

from typing import Any

import pytest

from sortie.core import events as ev
from sortie.core.conclude import Next, Outcome, conclude
from sortie.core.decide import Tick, decide
from sortie.core.operator import Reply, obey
from sortie.core.policy import Limits, Spent
from sortie.core.schedule import Schedule

from .facts import DAY, NOW, parked, policy, running, schedule, verdict, view, waiting


def situation(name: str) -> Schedule:
    match name:
        case "running":
            return schedule(running())
        case "stopping":
            return schedule(running(stop="stalled"))
        case "ending":
            return schedule(running(ending=verdict()))
        case "waiting":
            return schedule(waiting(due_at=NOW + 60, session_id="s1"))
        case "queued":
            return schedule(view())
        case "inactive":
            return schedule(view(state="Backlog"))
    return schedule(parked(kind=name.removeprefix("parked for ")))


@pytest.mark.parametrize(
    ("verb", "where", "ok", "words", "change"),
    [
        ("stop", "running", True, "is being stopped and parked", ev.Stopping),
        ("stop", "stopping", False, "is ending already", None),
        ("stop", "ending", False, "is ending already", None),
        ("stop", "waiting", True, "will not be tried again", ev.Parked),
        ("stop", "parked for signal", False, "is not running", None),
        ("stop", "queued", False, "is not running", None),
        ("stop", "inactive", False, "is not running", None),
        ("unpark", "running", False, "is not parked", None),
        ("unpark", "stopping", False, "is not parked", None),
        ("unpark", "ending", False, "is not parked", None),
        ("unpark", "waiting", False, "is not parked", None),
        ("unpark", "parked for signal", True, "is free to start", ev.Unparked),
        ("unpark", "parked for error", True, "is free to start", ev.Unparked),
        ("unpark", "parked for budget", True, "is free to start", ev.Unparked),
        ("unpark", "parked for operator", True, "is free to start", ev.Unparked),
        ("unpark", "queued", False, "is not parked", None),
        ("unpark", "inactive", False, "is not parked", None),
        ("retry", "running", False, "is running", None),
        ("retry", "stopping", False, "is running", None),
        ("retry", "ending", False, "is running", None),
        ("retry", "waiting", True, "is tried again now", ev.RetryDue),
        ("retry", "parked for signal", True, "is free to start", ev.Unparked),
        ("retry", "parked for operator", True, "is free to start", ev.Unparked),
        ("retry", "queued", True, "waiting for its turn", None),
        ("retry", "inactive", False, "not an active state", None),
    ],
)
@pytest.mark.parametrize("name", ["1", "D-1", "#1", "d-1"])
def test_a_command_does_what_it_says(verb, where, ok, words, change, name):
    answer = obey(situation(where), verb, name, NOW)
    assert (answer.ok, answer.issue_id) == (ok, "1")
    assert words in answer.outcome
    assert "D-1" in answer.outcome
    assert [type(event) for event in answer.events] == ([change] if change else [])


def test_an_unknown_issue_is_refused_with_a_hint():
    answer = obey(situation("queued"), "stop", "D-99", NOW)
    assert answer == Reply(False, "D-99 is not known; `sortie status` lists what is.")


def test_an_unknown_verb_is_refused_with_those_that_exist():
    answer = obey(situation("queued"), "explode", "D-1", NOW)
    assert not answer.ok
    assert "unpark, stop, retry, start" in answer.outcome


def carried_out(made: Schedule, verb: str) -> Schedule:
    for event in obey(made, verb, "D-1", NOW).events:
        made.apply(event)
    return made


def causes(made: Schedule) -> list[object]:
    events = decide(made, Tick(now=NOW, candidates_known=True))
    return [getattr(event, "cause", getattr(event, "rule", type(event))) for event in events]


def test_a_stopped_run_keeps_the_cause_and_is_not_stopped_twice():
    made = carried_out(situation("running"), "stop")
    assert (made.running["1"].stop, made.running["1"].stop_detail) == ("operator", "stopped by hand")
    assert not obey(made, "stop", "D-1", NOW).ok


def test_a_stopped_retry_is_parked_and_goes_on_later_with_its_attempt_and_session():
    made = carried_out(situation("waiting"), "stop")
    assert made.waiting == {}
    park = made.parked["1"].park
    assert (park.kind, park.attempt, park.session_id) == ("operator", 1, "s1")
    assert causes(made) == ["parked"]


def test_an_unparked_issue_starts():
    assert causes(carried_out(situation("parked for operator"), "unpark")) == ["unparked"]


def test_a_retry_by_hand_does_not_wait():
    assert causes(situation("waiting")) == ["waiting"]
    assert causes(carried_out(situation("waiting"), "retry")) == ["error"]


@pytest.mark.parametrize(("kind", "left"), [("budget", Spent()), ("signal", Spent(sessions=3))])
def test_only_unparking_for_budget_gives_a_new_budget(kind, left):
    made = situation(f"parked for {kind}")
    made.spent["1"] = Spent(sessions=3)
    assert carried_out(made, "unpark").spent_on("1") == left


# -- a start by hand ------------------------------------------------------------------------------------------


SITUATIONS = {
    "inactive": (lambda: schedule(view(state="Backlog")), 1, ""),
    "done": (lambda: schedule(view(state="Done")), 1, ""),
    "blocked": (lambda: schedule(view(blocked_by=("D-2",))), 1, ""),
    "parked": (lambda: schedule(parked(attempt=3, session_id="s1")), 4, "s1"),
    "stopped by hand": (lambda: schedule(parked(kind="operator", attempt=3, session_id="s1")), 4, "s1"),
    "waiting": (lambda: schedule(waiting(due_at=NOW + 3600, attempt=2, session_id="s1")), 2, "s1"),
    "queued": (lambda: schedule(view()), 1, ""),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_start_by_hand_starts_whatever_the_source_shows(name):
    make, attempt, session_id = SITUATIONS[name]
    answer = obey(make(), "start", "D-1", NOW)
    assert (answer.ok, answer.issue_id) == (True, "1")
    assert "starts as soon as there is a slot" in answer.outcome
    (claimed,) = decide(carried_out(make(), "start"), Tick(now=NOW, candidates_known=True))
    assert isinstance(claimed, ev.Claimed)
    assert (claimed.cause, claimed.attempt, claimed.session_id) == ("started", attempt, session_id)


@pytest.mark.parametrize(("where", "words"), [("running", "is running"), ("stopping", "is running")])
def test_a_start_of_what_runs_is_refused(where, words):
    answer = obey(situation(where), "start", "D-1", NOW)
    assert not answer.ok
    assert words in answer.outcome


def test_a_start_of_what_is_gone_is_refused():
    made = situation("waiting")
    made.issues.clear()
    answer = obey(made, "start", "D-1", NOW)
    assert not answer.ok
    assert "not in the tracker" in answer.outcome


def asked_for(state: str = "Backlog", **rules: Any) -> Schedule:
    made = schedule(view(state=state, blocked_by=("D-9",)), rules=policy(**rules))
    return carried_out(made, "start")


@pytest.mark.parametrize("state", ["Backlog", "Todo"])
def test_a_start_by_hand_waits_for_a_slot_and_says_so_once(state):
    made = asked_for(state, max_concurrent=1)
    made.running["2"] = running("2")
    made.issues["2"] = view("2")
    assert causes(made) == ["no-slot"]
    for event in decide(made, Tick(now=NOW, candidates_known=True)):
        made.apply(event)
    assert causes(made) == []
    del made.running["2"]
    assert "started" in causes(made)


def test_a_start_by_hand_respects_the_budgets_of_the_issue_and_the_day():
    made = asked_for(per_issue=Limits(sessions=2))
    made.spent["1"] = Spent(sessions=2)
    (event,) = decide(made, Tick(now=NOW, candidates_known=True))
    assert isinstance(event, ev.Parked)
    assert event.park.kind == "budget"

    made = asked_for(per_day=Limits(sessions=2))
    made.days[DAY] = Spent(sessions=2)
    assert causes(made) == ["day-budget"]


@pytest.mark.parametrize("state", ["Backlog", "Done"])
def test_a_run_that_a_person_started_is_not_stopped_for_what_the_source_showed_then(state):
    made = schedule(running(asked_in=state), view(state=state))
    assert causes(made) == []
    made.running["1"] = running()
    assert causes(made) != []


def test_a_run_that_a_person_started_is_stopped_when_its_issue_is_closed_or_gone():
    made = schedule(running(asked_in="Backlog"), view(state="Icebox"))
    assert causes(made) == []
    made = schedule(running(asked_in="Backlog"), view(state="Done"))
    assert causes(made) == ["terminal"]
    del made.issues["1"]
    assert causes(made) == ["gone"]


def test_what_a_person_asked_for_stays_parked_where_it_is_and_asked_for_after_a_failure():
    """Not active as it was before, until it is moved."""
    run = running(asked_in="Backlog")
    made = schedule(run, view(state="Backlog"))
    failed = Outcome(status="failed", turns=0, error="exit 1", error_kind="turn_failed")
    (settled,) = conclude(made, run, failed, Next(then="released", why=""), used=False, now=NOW)
    assert isinstance(settled, ev.Settled)
    assert settled.retry is not None
    assert settled.retry.by_hand
    blocked = Outcome(status="succeeded", turns=1, soft_stop="blocked")
    (settled,) = conclude(made, run, blocked, Next(then="parked", why="x"), used=False, now=NOW)
    made.apply(settled)
    assert causes(made) == []
    made.apply(ev.IssueSeen(at=NOW, issue_id="1", view=view(state="Icebox")))
    assert isinstance(decide(made, Tick(now=NOW, candidates_known=True))[0], ev.Unparked)


def test_a_run_that_a_person_started_is_stopped_when_it_is_overdue():
    made = schedule(running(cause="started"), view(state="Backlog"))
    late = ev.Overdue(issue_id="1", run_id="r1", cause="stalled", detail="quiet")
    (stop,) = decide(made, Tick(now=NOW, candidates_known=True, overdue=(late,)))
    assert isinstance(stop, ev.Stopping)


def test_what_a_person_asked_for_is_dropped_when_it_is_gone():
    """Or it would wait for ever, and whoever waits for the end of all work with it."""
    made = asked_for()
    del made.issues["1"]
    (dropped,) = decide(made, Tick(now=NOW, candidates_known=True))
    assert isinstance(dropped, ev.RetryDropped)
