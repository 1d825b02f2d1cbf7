"""Where the policy tries each issue once, the source has the last word, however the run ended."""

from __future__ import annotations

import pytest

from sortie.core.conclude import AGENT_FAULTS, Next, Outcome, conclude, settle
from sortie.errors import AgentError

from .facts import NOW, policy, running, schedule

WORD = Next(then="released", why="over", state="Done", memo="m")
STOPS = ("", "crash", "shutdown", "lost", "budget", "operator", "stalled", "timed_out", "gone")


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", ["", "rate_limited", "turn_failed", *sorted(AGENT_FAULTS)])
@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_what_is_tried_once_is_over_however_its_run_ended(status, kind, stop):
    """LOG-11: nothing is resumed, tried again, held up or put aside without a person."""
    made = schedule(running(attempt=1), rules=policy(tries_once=True))
    outcome = Outcome(status=status, turns=1, error_kind=kind, stop=stop, error="why")
    result = settle(made, made.running["1"], outcome, WORD, used=True, now=NOW)
    assert (result.why, result.left) == ("over", WORD)
    assert (result.retry, result.park, result.pause_until) == (None, None, None)
    for event in conclude(made, made.running["1"], outcome, WORD, used=True, now=NOW):
        made.apply(event)
    assert not (made.running or made.waiting or made.parked or made.pauses)


def test_what_could_not_begin_costs_nothing():
    made = schedule(running(attempt=1), rules=policy(tries_once=True))
    for turns, is_free in ((0, True), (1, False)):
        outcome = Outcome(status="failed", turns=turns, error_kind=AgentError.NOT_FOUND)
        assert settle(made, made.running["1"], outcome, WORD, used=False, now=NOW).refund is is_free
