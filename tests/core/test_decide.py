"""Each rule of a decision on its own."""

from __future__ import annotations

import pytest

from sortie.core import events as ev
from sortie.core.decide import Tick, decide
from sortie.core.policy import Limits, Spent
from sortie.core.records import Pause
from sortie.core.schedule import Schedule

from .facts import DAY, NOW, parked, policy, running, schedule, verdict, view, waiting
from .laws import check_decision, shuffled

TICK = Tick(now=NOW, candidates_known=True)


def told(made: Schedule, tick: Tick = TICK) -> list[str]:
    """The decision in short: what, and for which issue."""
    return [_short(event) for event in check_decision(made, tick)]


def _short(event: ev.AnyEvent) -> str:
    match event:
        case ev.Claimed():
            return f"start {event.issue_id}: {event.cause}"
        case ev.Stopping():
            return f"stop {event.issue_id}: {event.cause}"
        case ev.Skipped():
            return f"skip {event.issue_id}: {event.rule}"
    return f"{ev.kind_of(event)} {event.issue_id}"


def starts(made: Schedule, tick: Tick = TICK) -> list[ev.Claimed]:
    return [event for event in check_decision(made, tick) if isinstance(event, ev.Claimed)]


# -- order ----------------------------------------------------------------------------------------------------


def test_priority_comes_first_then_what_was_begun_then_age_then_the_name():
    made = schedule(
        view("7", created_at="2026-01-01"),
        view("6", priority=2),
        view("5", priority=2, created_at="2026-01-02"),
        view("4", priority=2, created_at="2026-01-01"),
        view("3", priority=2, created_at="2026-01-01", identifier="A-3"),
        view("2", priority=2, created_at="2026-01-03"),
        view("1", priority=1, created_at="2026-01-09"),
        waiting("2"),
    )
    started = [event.issue_id for event in decide(made, TICK)]
    assert started == ["1", "2", "3", "4", "5", "6", "7"]


def test_two_issues_of_one_name_have_an_order_too():
    made = schedule(view("b", identifier="D-1"), view("a", identifier="D-1"), rules=policy(max_concurrent=1))
    assert told(made) == ["start a: new", "skip b: no-slot"]


def test_the_order_in_which_things_are_remembered_never_shows():
    made = schedule(
        *(waiting(key) for key in "dbca"),
        *(parked(key) for key in "hfge"),
        *(running(key) for key in "lkji"),
        *(view(key, state="Done") for key in "dbcahfgelkji"),
    )
    assert told(made) == [
        *(f"stop {key}: terminal" for key in "ijkl"),
        *(f"drop {key}" for key in "abcd"),
        *(f"unpark {key}" for key in "efgh"),
    ]
    assert decide(shuffled(made), TICK) == decide(made, TICK)


# -- room -----------------------------------------------------------------------------------------------------


def test_the_last_slot_goes_to_the_first_in_line():
    made = schedule(running("9"), view("1", priority=2), view("2", priority=1), rules=policy(max_concurrent=2))
    assert told(made) == ["start 2: new", "skip 1: no-slot"]


def test_a_full_state_does_not_hold_up_the_others():
    rules = policy(max_concurrent_by_state={"todo": 1})
    made = schedule(view("1"), view("2"), view("3", state="In Progress"), rules=rules)
    assert told(made) == ["start 1: new", "skip 2: no-state-slot", "start 3: new"]


def test_runs_count_in_the_state_their_issue_is_in_now():
    rules = policy(max_concurrent_by_state={"in progress": 1})
    made = schedule(running("9"), view("9", state="In Progress"), view("1", state="in progress"), rules=rules)
    assert told(made) == ["skip 1: no-state-slot"]


def test_sessions_started_in_the_same_tick_count_for_the_day():
    made = schedule(view("1"), view("2"), view("3"), rules=policy(per_day=Limits(sessions=3)))
    made.days[DAY] = Spent(sessions=1)
    assert told(made) == ["start 1: new", "start 2: new", "skip 3: day-budget"]


def test_a_new_day_has_a_new_budget():
    made = schedule(view("1"), rules=policy(per_day=Limits(sessions=3)))
    made.days["2026-03-29"] = Spent(sessions=3)
    assert told(made) == ["start 1: new"]


def test_a_paused_provider_holds_up_everything_until_its_time():
    made = schedule(view("1"), rules=policy(provider="codex"))
    made.pauses["codex"] = Pause(until=NOW + 1, error_kind="rate_limited", detail="")
    assert told(made) == ["skip 1: provider-paused"]
    assert told(made, Tick(now=NOW + 1, candidates_known=True)) == ["start 1: new"]


def held(until: float, issue_id: str = "", tries: int = 1) -> Pause:
    return Pause(until=until, error_kind="agent_auth", detail="Log in.", tries=tries, issue_id=issue_id)


def test_a_fault_of_the_agent_holds_up_everything_with_its_reason():
    made = schedule(view("1"), view("2"))
    made.pauses["command"] = held(NOW + 1)
    assert told(made) == ["skip 1: agent-held", "skip 2: agent-held"]
    assert decide(made, Tick(now=NOW, candidates_known=True))[0] == ev.Skipped(
        at=NOW, issue_id="1", identifier="D-1", rule="agent-held", detail="Log in."
    )


def test_one_run_at_a_time_tries_whether_the_agent_works_again():
    made = schedule(view("1"), view("2"), view("3"))
    made.pauses["command"] = held(NOW)
    assert told(made) == ["start 1: new", "skip 2: agent-held", "skip 3: agent-held"]
    made.running["1"] = running("1", agent="command")
    made.trials.add("r1")
    assert told(made) == ["skip 2: agent-held", "skip 3: agent-held"]


def test_runs_from_before_the_fault_do_not_count_as_a_try():
    made = schedule(view("1"), view("2"))
    made.pauses["command"] = held(NOW)
    made.running["1"] = running("1", agent="command")
    assert told(made) == ["start 2: new"]


def test_the_issue_that_met_the_fault_is_not_the_one_that_tries_again_while_there_is_another():
    made = schedule(view("1", priority=1), view("2", priority=2))
    made.pauses["command"] = held(NOW, issue_id="1")
    assert told(made) == ["start 2: new", "skip 1: agent-held"]


# -- eligibility ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", ["identifier", "title"])
def test_a_record_with_a_gap_does_not_start(gap):
    assert told(schedule(view("1", **{gap: ""}))) == ["skip 1: incomplete"]


def test_a_blocked_issue_waits_for_its_blockers():
    assert told(schedule(view("1", blocked_by=("D-2",)))) == ["skip 1: blocked-by"]


@pytest.mark.parametrize("state", ["Done", "Backlog", "Review"])
def test_an_issue_that_is_not_active_is_not_spoken_of(state):
    assert told(schedule(view("1", state=state))) == []


def test_a_retry_starts_at_its_time_with_its_attempt_session_and_failures():
    retry = waiting("1", due_at=NOW + 5, attempt=4, failures=2, session_id="s1")
    assert told(schedule(retry)) == ["skip 1: waiting"]
    (start,) = starts(schedule(retry), Tick(now=NOW + 5, candidates_known=True))
    assert (start.issue_id, start.identifier, start.cause) == ("1", "D-1", "error")
    assert (start.attempt, start.failures, start.session_id) == (4, 2, "s1")


@pytest.mark.parametrize(
    ("kind", "fingerprint", "expected"),
    [
        ("signal", "before", "skip 1: parked"),
        ("signal", "", "skip 1: parked"),
        ("signal", "after", "start 1: changed"),
        ("error", "before", "skip 1: parked"),
        ("error", "after", "start 1: changed"),
        ("operator", "after", "skip 1: parked"),
        ("budget", "before", "start 1: budget"),
        ("budget", "after", "start 1: budget"),
    ],
)
def test_a_parked_issue_starts_only_after_what_frees_its_kind(kind, fingerprint, expected):
    """A2O-09: unchanged stays parked; not knowing is no change; what was stopped by hand is freed by hand."""
    assert told(schedule(parked("1", kind=kind), view("1", fingerprint=fingerprint))) == [expected]


def test_a_freed_issue_goes_on_with_the_next_attempt_in_its_session():
    made = schedule(parked("1", attempt=2, session_id="s1"), view("1", fingerprint="after"))
    (start,) = starts(made)
    assert (start.issue_id, start.identifier, start.cause) == ("1", "D-1", "changed")
    assert (start.attempt, start.failures, start.session_id) == (3, 0, "s1")


# -- budget of an issue ---------------------------------------------------------------------------------------


def over_budget(*held: object) -> Schedule:
    made = schedule(view("1"), *held, rules=policy(per_issue=Limits(sessions=2)))  # type: ignore[arg-type]
    made.spent["1"] = Spent(sessions=2)
    return made


def test_an_issue_over_its_budget_is_parked_once_and_then_left_alone():
    made = over_budget()
    rounds = []
    for _ in range(3):
        events = decide(made, TICK)
        rounds.append([_short(event) for event in events])
        for event in events:
            made.apply(event)
    assert rounds == [["park 1"], ["skip 1: parked"], []]


@pytest.mark.parametrize(
    "held", [waiting("1", attempt=4, session_id="s1"), parked("1", attempt=3, session_id="s1", fingerprint="old")]
)
def test_parking_for_budget_keeps_the_attempt_and_the_session(held):
    made = over_budget(held)
    made.apply(ev.Skipped(at=NOW, issue_id="1", identifier="D-1", rule="no-slot"))
    made.issues["1"] = view("1", fingerprint="new")
    (parked,) = decide(made, TICK)
    assert isinstance(parked, ev.Parked)
    assert (parked.park.attempt, parked.park.session_id) == (3, "s1")


def test_an_issue_over_its_budget_starts_when_the_limit_is_raised():
    made = over_budget(parked("1", kind="budget", attempt=2))
    assert told(made) == ["skip 1: parked"]
    made.policy = policy(per_issue=Limits(sessions=3))
    assert told(made) == ["start 1: budget"]


# -- stops and drops ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Done", ["stop 1: terminal"]),
        ("Backlog", ["stop 1: inactive"]),
        ("Review", []),
        ("review", []),
        ("In Progress", []),
    ],
)
def test_a_run_is_stopped_when_its_issue_leaves_except_by_hand_off(state, expected):
    assert told(schedule(running("1"), view("1", state=state))) == expected


def test_a_run_whose_issue_is_gone_is_stopped():
    made = schedule(running("1"))
    del made.issues["1"]
    assert told(made) == ["stop 1: gone"]


@pytest.mark.parametrize("more", [{"stop": "operator"}, {"ending": verdict()}])
def test_a_run_that_is_ending_is_not_stopped_again(more):
    late = ev.Overdue(issue_id="1", run_id="r1", cause="stalled", detail="quiet")
    made = schedule(running("1", **more), view("1", state="Done"))
    assert told(made, Tick(now=NOW, candidates_known=True, overdue=(late,))) == []


def test_an_overdue_run_is_stopped_even_when_the_tracker_does_not_answer():
    late = ev.Overdue(issue_id="1", run_id="r1", cause="stalled", detail="quiet")
    made = schedule(running("1"), running("2"), view("2", state="Done"), view("3"))
    assert told(made, Tick(now=NOW, candidates_known=False, overdue=(late,))) == ["stop 1: stalled"]


def test_an_overdue_report_about_an_earlier_run_stops_nothing():
    late = ev.Overdue(issue_id="1", run_id="r0", cause="stalled", detail="quiet")
    assert told(schedule(running("1")), Tick(now=NOW, candidates_known=True, overdue=(late,))) == []


def test_what_is_missing_altogether_stays_parked_but_is_not_tried_again():
    made = schedule(parked("1"), waiting("2"))
    made.issues.clear()
    assert told(made) == ["drop 2"]


def test_nothing_is_decided_about_an_issue_whose_run_ended_while_the_tracker_was_read():
    """What the tracker said of it may be older than that end: a parked issue would start, a done one too."""
    made = schedule(
        parked("1"),
        view("1", fingerprint="stale"),
        waiting("2"),
        view("2", state="Done"),
        parked("3"),
        view("3", state="Done"),
        view("4"),
        view("5"),
    )
    unsure = Tick(now=NOW, candidates_known=True, unsure=("1", "2", "3", "4"))
    assert told(made, unsure) == ["start 5: new"]
    assert told(made) == ["drop 2", "unpark 3", "start 1: changed", "start 4: new", "start 5: new"]


# -- size -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 200])
def test_ten_thousand_candidates_are_spoken_of_once(slots):
    made = schedule(
        *(view(str(n), priority=n * 7 % 5, created_at=f"2026-01-{n % 28 + 1:02}") for n in range(10_000)),
        rules=policy(max_concurrent=slots),
    )
    events = decide(made, TICK)
    assert len(events) == 10_000
    assert sum(isinstance(event, ev.Claimed) for event in events) == slots
    for event in events:
        made.apply(event)
    assert decide(made, TICK) == []
