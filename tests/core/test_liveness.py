"""A run is overdue from its deadline on, not before, and the deadline is known in advance."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.core.policy import Liveness, Policy, next_deadline, overdue

from .facts import NOW, policy

TIMES = st.floats(NOW, NOW + 1000)
RUNS = st.builds(
    Liveness, issue_id=st.just("1"), run_id=st.just("r1"), last_heard=TIMES, turn_started=st.none() | TIMES
)
POLICIES = st.builds(
    Policy, active_states=st.just(()), turn_timeout=st.floats(1, 500), stall_timeout=st.floats(0, 500)
)


def run(**more: float | None) -> Liveness:
    fields = {"last_heard": NOW, "turn_started": NOW, **more}
    return Liveness(issue_id="1", run_id="r1", **fields)  # type: ignore[arg-type]


def causes(now: float, *runs: Liveness, turn_timeout: float = 100.0, stall_timeout: float = 30.0) -> list[str]:
    rules = policy(turn_timeout=turn_timeout, stall_timeout=stall_timeout)
    return [late.cause for late in overdue(list(runs), rules, now)]


def test_silence_is_measured_from_the_last_heard():
    assert causes(NOW + 29, run()) == []
    assert causes(NOW + 30, run()) == ["stalled"]
    assert causes(NOW + 49, run(last_heard=NOW + 20)) == []


def test_silence_before_the_turn_does_not_count():
    assert causes(NOW + 29, run(last_heard=NOW - 1000)) == []
    assert causes(NOW + 30, run(last_heard=NOW - 1000)) == ["stalled"]


def test_a_turn_that_talks_for_ever_is_ended_too():
    assert causes(NOW + 100, run(last_heard=NOW + 99)) == ["timed_out"]


def test_a_turn_that_is_both_is_timed_out():
    assert causes(NOW + 100, run()) == ["timed_out"]


def test_a_run_between_turns_is_never_overdue():
    assert causes(NOW + 10_000, run(turn_started=None)) == []


def test_a_stall_timeout_of_zero_switches_the_watch_off():
    assert causes(NOW + 99, run(), stall_timeout=0.0) == []
    assert next_deadline([run()], policy(turn_timeout=100.0, stall_timeout=0.0)) == NOW + 100


@pytest.mark.parametrize(
    ("now", "key"), [(NOW + 30, "agent.stall_timeout_ms"), (NOW + 100, "agent.turn_timeout_ms")]
)
def test_the_reason_names_the_key_that_sets_the_limit(now, key):
    (late,) = overdue([run()], policy(turn_timeout=100.0, stall_timeout=30.0), now)
    assert (late.issue_id, late.run_id) == ("1", "r1")
    assert key in late.detail


@given(st.lists(RUNS, max_size=4), POLICIES)
def test_the_next_deadline_is_the_first_moment_at_which_something_is_overdue(runs, rules):
    """So whoever sleeps until then neither wakes for nothing nor wakes too late."""
    deadline = next_deadline(runs, rules)
    if deadline is None:
        assert overdue(runs, rules, NOW + 1e9) == ()
    else:
        assert overdue(runs, rules, deadline)
        assert not overdue(runs, rules, math.nextafter(deadline, -math.inf))
