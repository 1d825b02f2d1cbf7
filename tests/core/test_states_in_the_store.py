"""Sources whose states are kept in the store alone: they judge failures too, and bound all that is spent."""

from __future__ import annotations

import pytest

from sortie.core import events as ev
from sortie.core.conclude import Next, Outcome, conclude, settle
from sortie.core.decide import Tick, decide
from sortie.core.model import Issue, Limits
from sortie.core.observe import seen_now
from sortie.core.operator import move
from sortie.core.policy import Liveness, Spent, next_deadline, overdue
from sortie.core.records import Claim
from sortie.core.schedule import Schedule

from .facts import DAY, NOW, parked, policy, running, schedule, view, waiting

DONE = Next(then="released", why="it is done", state="Done", memo="what it made")
LOST = Next(then="released", why="it failed", state="Done", memo="why it failed")
AGAIN = Next(then="again", why="once more", delay=0.5)
NOBODY = Next(then="released", why="")


def failed(**more: object) -> Outcome:
    return Outcome(**{"status": "failed", "turns": 1, "error": "no luck", **more})  # type: ignore[arg-type]


def run_of(made: Schedule) -> Claim:
    return made.running["1"]


def applied(made: Schedule, events: list[ev.AnyEvent]) -> Schedule:
    for event in events:
        made.apply(event)
    return made


def test_a_success_leaves_the_issue_in_the_state_and_with_the_memo_of_its_source():
    made = schedule(running())
    events = conclude(made, run_of(made), Outcome(status="succeeded", turns=1), DONE, used=False, now=NOW)
    assert [type(event) for event in events] == [ev.IssueSeen, ev.Settled], "both in one transaction"
    seen = applied(made, events).issues["1"]
    assert (seen.state, seen.memo) == ("Done", "what it made")


def test_without_a_state_of_the_source_the_memo_stays():
    made = schedule(view(memo="old"), running())
    released = Next(then="released", why="")
    events = conclude(
        made, run_of(made), Outcome(status="succeeded", turns=1), released, used=False, now=NOW, state="Done"
    )
    assert applied(made, events).issues["1"].memo == "old"


@pytest.mark.parametrize("status", ["failed", "timed_out", "stalled"])
def test_a_failure_that_the_source_gives_up_is_over(status):
    made = schedule(running())
    stop = "" if status == "failed" else status
    outcome = failed(status=status, stop=stop)
    settled = settle(made, run_of(made), outcome, NOBODY, used=False, now=NOW, given_up=LOST)
    assert (settled.retry, settled.park, settled.left) == (None, None, LOST)


def test_a_source_says_when_a_failure_is_tried_again():
    made = schedule(running(attempt=2))
    settled = settle(made, run_of(made), failed(retryable=False), NOBODY, used=False, now=NOW, given_up=AGAIN)
    assert settled.retry and (settled.retry.kind, settled.retry.due_at, settled.retry.attempt) == (
        "error",
        NOW + 0.5,
        3,
    )


def test_a_source_can_have_a_failure_wait_for_a_person():
    made = schedule(running())
    settled = settle(
        made, run_of(made), failed(), NOBODY, used=False, now=NOW, given_up=Next(then="parked", why="look at it")
    )
    assert settled.park and (settled.park.kind, settled.park.reason) == ("error", "look at it")


@pytest.mark.parametrize("kind", ["rate_limited", "agent_auth"])
def test_what_is_not_the_fault_of_the_issue_is_not_given_up(kind):
    made = schedule(running())
    settled = settle(
        made, run_of(made), failed(turns=0, error_kind=kind), NOBODY, used=False, now=NOW, given_up=LOST
    )
    assert settled.retry and settled.left is None


@pytest.mark.parametrize("cause", ["shutdown", "crash", "lost", "operator", "budget"])
def test_a_stop_of_ours_is_no_failure_to_be_judged(cause):
    made = schedule(running())
    outcome = Outcome(status="cancelled", turns=0, stop=cause, error="stopped")
    assert settle(made, run_of(made), outcome, NOBODY, used=False, now=NOW, given_up=LOST).left is None


# -- what a person decides --------------------------------------------------------------------------------------


def test_an_issue_that_is_opened_again_starts_as_its_next_attempt():
    made = schedule(parked(attempt=3))
    applied(made, move(made, "1", Next(then="again", why="", state="Todo", memo="new"), NOW))
    assert made.parked == {} and made.issues["1"].memo == "new"
    assert made.waiting["1"].retry.attempt == 4 and not made.waiting["1"].retry.by_hand
    (claimed,) = (event for event in decide(made, tick()) if isinstance(event, ev.Claimed))
    assert (claimed.attempt, claimed.cause) == (4, "unparked")


def test_one_that_had_used_up_its_budget_gets_a_new_one():
    made = schedule(parked(kind="budget"))
    made.spent["1"] = Spent(sessions=9)
    applied(made, move(made, "1", Next(then="again", why="", state="Todo"), NOW))
    assert made.spent_on("1") == Spent()


@pytest.mark.parametrize("held", [parked(), waiting(due_at=NOW + 99), view(state="Done")])
def test_an_issue_that_is_over_waits_for_nothing_any_more(held):
    made = schedule(held)
    applied(made, move(made, "1", Next(then="released", why="", state="Done", memo="m"), NOW))
    assert (made.parked, made.waiting) == ({}, {})
    assert (made.issues["1"].state, made.issues["1"].memo) == ("Done", "m")


def test_one_that_is_blocked_does_not_start_because_somebody_opened_it():
    made = schedule(view(blocked_by=("D-2",)), parked())
    applied(made, move(made, "1", Next(then="again", why="", state="Todo"), NOW))
    assert not any(isinstance(event, ev.Claimed) for event in decide(made, tick()))


def test_others_are_seen_without_a_look_at_all_of_them():
    made = schedule(view("1"), view("2", blocked_by=("D-1",)))
    freed = Issue(id="2", identifier="D-2", title="Mend it", state="Todo", comments=())
    applied(made, seen_now(made, [freed], NOW))
    assert made.issues["2"].blocked_by == ()


# -- bounds -----------------------------------------------------------------------------------------------------


def tick() -> Tick:
    return Tick(now=NOW, candidates_known=True, day=DAY)


@pytest.mark.parametrize(
    ("limits", "starts"),
    [(Limits(sessions=3), 1), (Limits(sessions=2), 0), (Limits(usd=0.5), 0), (Limits(usd=0.6), 3), (Limits(), 3)],
)
def test_all_issues_together_have_a_budget_over_all_days(limits, starts):
    made = schedule(view("1"), view("2"), view("3"), rules=policy(in_all=limits))
    made.days = {"2026-03-28": Spent(sessions=1, usd=0.25), DAY: Spent(sessions=1, usd=0.25)}
    events = decide(made, tick())
    assert sum(isinstance(event, ev.Claimed) for event in events) == starts
    rules = {event.rule for event in events if isinstance(event, ev.Skipped)}
    assert rules == (set() if starts == 3 else {"whole-budget"})


def test_a_turn_is_refused_by_whichever_budget_is_used_up():
    made = schedule(running(), rules=policy(in_all=Limits(tokens=10)))
    assert made.turn_refused("1", DAY) == ""
    made.days["2026-03-01"] = Spent(tokens=10)
    assert made.turn_refused("1", DAY) == "the budget of all issues together is used up: all of 10 tokens used"


def test_a_run_may_have_time_limits_of_its_own():
    rules = policy(turn_timeout=100.0, stall_timeout=50.0)
    run = Liveness(issue_id="1", run_id="r", last_heard=NOW, turn_started=NOW, turn_timeout=7.0, stall_timeout=0.0)
    assert next_deadline([run], rules) == NOW + 7.0
    assert overdue([run], rules, NOW + 6.9) == ()
    (late,) = overdue([run], rules, NOW + 7.0)
    assert late.cause == "timed_out" and "7 s" in late.detail
