"""The exit table, row by row: what follows the end of a run."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.conclude import (
    AGENT_FAULTS,
    FIRST_HOLD,
    LIMIT_WITHOUT_RESET,
    LONGEST_HOLD,
    LONGEST_LIMIT,
    SHORTEST_LIMIT,
    Next,
    Outcome,
    Settlement,
    conclude,
    settle,
)
from sortie.core.conclude import stopped as stopped_by
from sortie.core.hand_off import judge_issue, wants_handoff
from sortie.core.policy import Policy
from sortie.core.records import Pause
from sortie.core.schedule import Schedule
from sortie.errors import AgentError

from .facts import DAY, NOW, POLICY, policy, running, schedule
from .laws import nominal

NO_HANDOFF = policy()
OURS = ("shutdown", "crash", "lost")
SIGNALS = ("blocked", "needs-human-review")


def ended(status: str = "succeeded", **more: Any) -> Outcome:
    return Outcome(status=status, session_id="s1", **{"turns": 1, **more})  # type: ignore[arg-type]


def follows(outcome: Outcome, rules: Policy = POLICY, *, handed: bool = True, **more: Any) -> Settlement:
    """What follows, with the hand-off attempted exactly where one is due."""
    state = more.pop("state", "In Progress")
    handoff = handed if wants_handoff(outcome, rules, state) else None
    made = more.pop("made", None) or schedule(more.pop("run", running(attempt=3)), rules=rules)
    judged = judge_issue(outcome, rules, state, handoff)
    return settle(made, made.running["1"], outcome, judged, **{"used": False, "now": NOW, **more})


RELEASED = Next(then="released", why="done")


def concluded(made: Schedule, outcome: Outcome, judged: Next = RELEASED, **more: Any) -> list[ev.AnyEvent]:
    """What becomes of the run of issue 1 in this schedule."""
    return conclude(made, made.running["1"], outcome, judged, **{"used": False, "now": NOW, **more})


def is_released(settlement: Settlement) -> bool:
    return settlement.retry is None and settlement.park is None and not settlement.refund


def test_blocked_is_parked_and_never_handed_over():
    """A2O-07, A2O-22: row `blocked`. A2O-09: the parking has the reason and the fingerprint."""
    outcome = ended(soft_stop="blocked", reason="a key is missing")
    assert not wants_handoff(outcome, POLICY, "In Progress")
    settlement = follows(outcome)
    assert settlement.retry is None
    park = settlement.park
    assert park is not None
    assert (park.kind, park.reason) == ("signal", "a key is missing")
    assert (park.attempt, park.session_id) == (3, "s1")
    judged = judge_issue(outcome, POLICY, "In Progress", None)
    (settled,) = concluded(schedule(running(attempt=3)), outcome, judged, fingerprint="f1")
    assert isinstance(settled, ev.Settled)
    assert settled.park == replace(park, fingerprint="f1")


def test_a_parking_without_a_reason_names_the_signal():
    park = follows(ended(soft_stop="blocked")).park
    assert park is not None
    assert park.reason == "blocked"


def test_needs_human_review_is_handed_over_and_released():
    """A2O-08, A2O-22: row `needs-human-review`."""
    outcome = ended(soft_stop="needs-human-review")
    assert wants_handoff(outcome, POLICY, "In Progress")
    assert is_released(follows(outcome))


def test_needs_human_review_whose_handoff_fails_is_not_tried_again():
    """A2O-08: a failed hand-off means no retry; A2O-09: the issue waits for a person."""
    settlement = follows(ended(soft_stop="needs-human-review"), handed=False)
    assert settlement.retry is None
    assert settlement.park is not None
    assert settlement.park.kind == "signal"


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_signal_without_a_handoff_state_is_parked(signal):
    """A2O-09: nothing in the tracker shows that the issue must wait, so the parking does."""
    outcome = ended(soft_stop=signal)
    assert not wants_handoff(outcome, NO_HANDOFF, "In Progress")
    assert follows(outcome, NO_HANDOFF).park is not None


def test_no_signal_is_handed_over_and_released():
    """A2O-22: row `absent`, hand-off works."""
    outcome = ended()
    assert wants_handoff(outcome, POLICY, "In Progress")
    assert is_released(follows(outcome))


def test_no_signal_and_a_failed_handoff_is_a_continuation():
    """A2O-22: row `absent`, hand-off fails."""
    settlement = follows(ended(), handed=False)
    retry = settlement.retry
    assert retry is not None
    assert settlement.park is None
    assert (retry.kind, retry.attempt, retry.due_at, retry.failures) == ("continuation", 4, NOW + 1.0, 0)
    assert "failed" in settlement.why


def test_no_signal_without_a_handoff_state_is_a_continuation_of_the_same_session():
    retry = follows(ended(), NO_HANDOFF).retry
    assert retry is not None
    assert (retry.kind, retry.due_at, retry.session_id) == ("continuation", NOW + 1.0, "s1")


@pytest.mark.parametrize("state", ["Done", "Review", "Backlog", ""])
def test_no_signal_on_an_issue_that_is_no_longer_active_is_released(state):
    outcome = ended()
    assert not wants_handoff(outcome, POLICY, state)
    assert is_released(follows(outcome, state=state))


@pytest.mark.parametrize("status", ["failed", "timed_out", "stalled"])
@pytest.mark.parametrize("signal", ["", *SIGNALS])
def test_an_error_exit_skips_the_handoff_and_is_tried_again_with_back_off(status, signal):
    """A2O-22: row `error exit`, whatever the status file says."""
    outcome = ended(status, soft_stop=signal, error="exit 1", turns=0)
    assert not wants_handoff(outcome, POLICY, "In Progress")
    settlement = follows(outcome, run=running(attempt=3, failures=2))
    retry = settlement.retry
    assert retry is not None
    assert (retry.kind, retry.attempt, retry.failures, retry.error) == ("error", 4, 3, "exit 1")
    assert 0.8 * 40 <= retry.due_at - NOW <= 40
    assert not settlement.refund


def test_the_error_counter_starts_again_after_a_completed_turn():
    retry = follows(ended("failed", error="exit 1", turns=1), run=running(failures=7)).retry
    assert retry is not None
    assert retry.failures == 1


@given(failures=st.integers(0, 40), turns=st.integers(0, 3), cap=st.floats(1, 3600))
def test_every_error_retry_waits_within_the_promise(failures, turns, cap):
    rules = policy(backoff_cap=cap)
    retry = follows(ended("failed", turns=turns), rules, run=running(failures=failures)).retry
    assert retry is not None
    assert retry.failures == (1 if turns else failures + 1)
    longest = nominal(retry.failures, cap)
    assert 0.8 * longest - 1e-6 <= retry.due_at - NOW <= longest + 1e-6


def test_a_failure_for_good_is_parked():
    settlement = follows(ended("failed", error="log in first", retryable=False))
    assert settlement.retry is None
    assert settlement.park is not None
    assert (settlement.park.kind, settlement.park.reason) == ("error", "log in first")


def limited(until: float | None) -> float:
    settlement = follows(ended("failed", error_kind="rate_limited", limited_until=until), run=running(failures=2))
    assert settlement.refund
    assert settlement.retry is not None
    assert (settlement.retry.kind, settlement.retry.failures) == ("limit", 2)
    return settlement.retry.due_at - NOW


def test_a_provider_limit_is_waited_out_and_costs_no_session():
    assert limited(NOW + 1234) == 1234
    assert limited(None) == LIMIT_WITHOUT_RESET


@pytest.mark.parametrize("until", [0.0, NOW, -math.inf, math.nan])
def test_a_limit_that_ended_already_does_not_make_us_spin(until):
    assert limited(until) == SHORTEST_LIMIT


@pytest.mark.parametrize("until", [NOW * 1000, math.inf])
def test_a_limit_in_the_far_future_does_not_stop_us_for_ages(until):
    assert limited(until) == LONGEST_LIMIT


@pytest.mark.parametrize("cause", OURS)
def test_a_run_cut_short_by_us_is_resumed_at_once_and_costs_no_session(cause):
    outcome = stopped_by(ended("cancelled", turns=2), cause, "the orchestrator went away")
    settlement = follows(outcome, run=running(attempt=3, failures=2))
    retry = settlement.retry
    assert retry is not None
    assert settlement.refund
    assert (retry.kind, retry.attempt, retry.failures, retry.due_at) == ("resume", 4, 2, NOW)
    assert retry.session_id == "s1"


@pytest.mark.parametrize("cause", ["budget", "operator"])
def test_a_run_stopped_for_budget_or_by_hand_is_parked(cause):
    settlement = follows(stopped_by(ended("cancelled"), cause, "no more"))
    assert settlement.retry is None
    assert settlement.park is not None
    assert (settlement.park.kind, settlement.park.reason) == (cause, "no more")


@pytest.mark.parametrize("cause", ["terminal", "gone", "inactive"])
def test_a_run_whose_issue_went_away_is_released(cause):
    settlement = follows(stopped_by(ended("cancelled"), cause, "the issue moved"))
    assert is_released(settlement)
    assert settlement.why == "the issue moved"


@pytest.mark.parametrize("cause", ["stalled", "timed_out"])
def test_a_run_that_was_overdue_is_an_error_however_its_process_ended(cause):
    outcome = stopped_by(ended("failed", turns=0, retryable=False, error="killed"), cause, "no sign of life")
    assert (outcome.status, outcome.error) == (cause, "no sign of life")
    retry = follows(outcome).retry
    assert retry is not None
    assert (retry.kind, retry.failures) == ("error", 1)


@pytest.mark.parametrize(
    "cause", ["shutdown", "crash", "lost", "budget", "operator", "terminal", "gone", "inactive"]
)
def test_what_we_stopped_is_cancelled_and_never_handed_over(cause):
    outcome = stopped_by(ended("failed"), cause, "why")
    assert outcome.status == "cancelled"
    assert not wants_handoff(outcome, POLICY, "In Progress")
    assert not wants_handoff(ended(stop=cause), POLICY, "In Progress")


@pytest.mark.parametrize("kind", sorted(AGENT_FAULTS))
def test_a_fault_of_the_agent_counts_as_no_run_and_holds_up_the_others(kind):
    outcome = ended("failed", error="not logged in", error_kind=kind, retryable=False, turns=0)
    settlement = follows(outcome)
    assert settlement.retry is not None
    assert (settlement.retry.kind, settlement.retry.attempt, settlement.retry.session_id) == ("held", 3, "s1")
    assert settlement.refund
    assert settlement.refund_turns
    assert settlement.pause_until == NOW + FIRST_HOLD


@pytest.mark.parametrize(("turns", "used"), [(1, False), (0, True)])
def test_a_fault_after_work_is_paid_for_and_holds_up_the_others(turns, used):
    """An agent that works and then finds itself refused must not go on for ever at no charge."""
    outcome = ended("failed", error="401", error_kind="agent_auth", retryable=False, turns=turns)
    settlement = follows(outcome, used=used)
    assert settlement.retry is not None
    assert (settlement.retry.kind, settlement.retry.attempt, settlement.retry.failures) == ("error", 4, 1)
    assert not settlement.refund
    assert settlement.pause_until == NOW + FIRST_HOLD


def test_a_fault_that_others_do_not_meet_parks_the_issue_alone():
    outcome = ended("failed", error="not found", error_kind="agent_not_found", retryable=False)
    made = schedule(running(attempt=3))
    made.faults["1"], made.proofs[made.running["1"].paid_by] = NOW - 2, NOW - 1
    settlement = follows(outcome, made=made)
    assert settlement.park is not None
    assert (settlement.park.kind, settlement.pause_until) == ("error", None)


@given(faults=st.integers(0, 10_000))
def test_the_more_runs_meet_a_fault_the_longer_it_takes_until_the_next_one_tries(faults):
    outcome = ended("failed", error="not logged in", error_kind="agent_auth", retryable=False, turns=0)
    made = schedule(running(attempt=3, agent="command"))
    made.pauses["command"] = Pause(until=NOW, error_kind="agent_auth", detail="not logged in", tries=faults)
    settlement = follows(outcome, made=made)
    assert settlement.pause_until is not None
    assert settlement.pause_until - NOW == min(FIRST_HOLD * 2 ** min(faults, 20), LONGEST_HOLD)


def test_runs_that_began_before_a_fault_was_known_make_it_no_worse():
    outcome = ended("failed", error="not logged in", error_kind="agent_auth", retryable=False)
    made = schedule(running(agent="command"))
    first, _ = concluded(made, outcome)
    made.apply(first)
    assert [type(event) for event in concluded(made, outcome)] == [ev.Settled]
    made.trials.add("r1")
    again, _ = concluded(made, outcome)
    assert isinstance(first, ev.ProviderPaused)
    assert isinstance(again, ev.ProviderPaused)
    assert (first.tries, again.tries) == (1, 2)


def test_the_faults_of_agents_are_those_that_adapters_report():
    reported = {AgentError.NOT_FOUND, AgentError.NOT_EXECUTABLE, AgentError.AUTH, AgentError.CONFIG}
    assert reported == AGENT_FAULTS


def test_an_issue_that_was_moved_away_is_not_parked_for_its_review():
    """A2O-08: what is done needs no review."""
    outcome = ended(soft_stop="needs-human-review")
    assert is_released(follows(outcome, state="Done"))


@given(
    status=st.sampled_from(["succeeded", "failed", "timed_out", "stalled", "cancelled"]),
    signal=st.sampled_from(["", *SIGNALS]),
    stop=st.sampled_from(["", "shutdown", "crash", "lost", "budget", "operator", "stalled", "timed_out", "gone"]),
    kind=st.sampled_from(["", "rate_limited", "agent_auth"]),
    retryable=st.booleans(),
    handed=st.booleans(),
    state=st.sampled_from(["Todo", "Done", "Review", ""]),
)
def test_every_end_leads_to_one_place(status, signal, stop, kind, retryable, handed, state):
    outcome = ended(status, soft_stop=signal, stop=stop, error_kind=kind, retryable=retryable)
    settlement = follows(outcome, handed=handed, state=state)
    assert not (settlement.retry and settlement.park)
    held = settlement.retry is not None and settlement.retry.kind == "held"
    assert settlement.retry is None or settlement.retry.attempt == 4
    assert not held, "a turn was completed, so the run counts"
    assert (settlement.pause_until is not None) == (
        not stop and (kind == "rate_limited" or (kind == "agent_auth" and status == "failed"))
    )
    assert not settlement.refund or settlement.retry is not None


# -- what a conclusion leaves in the log ------------------------------------------------------------------------


def test_the_claim_is_given_up_last_after_what_is_known_of_the_issue_and_its_agent():
    outcome = ended("failed", error="slow down", error_kind="rate_limited", limited_until=NOW + 60)
    made = schedule(running(agent="codex"))
    seen, paused, settled = concluded(made, outcome, state="In Progress")
    assert isinstance(seen, ev.IssueSeen)
    assert seen.view.state == "In Progress"
    assert isinstance(paused, ev.ProviderPaused)
    assert (paused.provider, paused.until, paused.error_kind, paused.tries) == (
        "codex",
        NOW + 60,
        "rate_limited",
        0,
    )
    assert isinstance(settled, ev.Settled)
    assert settled.refund == DAY


def test_an_issue_that_is_gone_is_known_to_be_gone_before_the_next_decision():
    outcome = stopped_by(ended("cancelled"), "gone", "the issue is no longer in the tracker")
    left, settled = concluded(schedule(running()), outcome, state="Todo")
    assert isinstance(left, ev.IssueLeft)
    assert isinstance(settled, ev.Settled)


def test_an_issue_that_came_back_while_its_run_ended_for_being_gone_is_still_there():
    """And what a person answered meanwhile is not forgotten."""
    back = schedule(running(stop="gone"))
    (settled,) = concluded(back, stopped_by(ended("cancelled"), "gone", "the issue left"), state="Todo")
    assert isinstance(settled, ev.Settled)


def test_a_turn_that_was_charged_and_did_not_complete_is_returned_where_the_agent_could_not_run():
    outcome = ended("failed", error="not found", error_kind="agent_not_found", retryable=False, turns=0)
    *_, settled = concluded(schedule(running(agent="command", turn=1)), outcome)
    assert isinstance(settled, ev.Settled)
    assert (settled.refund, settled.refund_turns) == (DAY, 1)


@pytest.mark.parametrize("judged", [RELEASED, Next(then="again", why="w"), Next(then="parked", why="w")])
@pytest.mark.parametrize("stop", ["", "operator", "shutdown"])
@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_it_is_known_beforehand_whether_a_conclusion_parks(judged, stop, status):
    made = schedule(running())
    outcome = ended(status, stop=stop, retryable=False)
    *_, settled = concluded(made, outcome, judged)
    assert isinstance(settled, ev.Settled)
    beforehand = settle(made, made.running["1"], outcome, judged, used=False, now=NOW)
    assert (beforehand.park is not None) == (settled.park is not None)


# -- back-off: doubling, capped, jittered only downwards, the same whenever it is asked -------------------------
