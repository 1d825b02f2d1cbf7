"""Every command in every situation: what it changes, and what the person is told."""

from __future__ import annotations

import pytest

from sortie.core import events as ev
from sortie.core.budget import Spent
from sortie.core.decide import Tick, decide
from sortie.core.operator import Answer, obey
from sortie.core.schedule import Schedule

from .facts import NOW, parked, running, schedule, verdict, view, waiting


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
@pytest.mark.parametrize("name", ["1", "D-1"])
def test_a_command_does_what_it_says(verb, where, ok, words, change, name):
    answer = obey(situation(where), verb, name, NOW)
    assert (answer.ok, answer.issue_id) == (ok, "1")
    assert words in answer.outcome
    assert "D-1" in answer.outcome
    assert [type(event) for event in answer.events] == ([change] if change else [])


def test_an_unknown_issue_is_refused_with_a_hint():
    answer = obey(situation("queued"), "stop", "D-99", NOW)
    assert answer == Answer(False, "D-99 is not known; `sortie status` lists what is.")


def test_an_unknown_verb_is_refused_with_those_that_exist():
    answer = obey(situation("queued"), "explode", "D-1", NOW)
    assert not answer.ok
    assert "unpark, stop, retry" in answer.outcome


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
