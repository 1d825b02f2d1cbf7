"""What a crash left, and a clock that was set meanwhile."""

from __future__ import annotations

import pytest

from sortie.core import events as ev
from sortie.core.recover import outcome_after_crash, recover

from .facts import NOW, policy, running, schedule, waiting


@pytest.mark.parametrize(
    ("kind", "ahead", "due"),
    [("error", 9_000.0, 60.0), ("error", 30.0, None), ("resume", 30.0, 0.0), ("limit", 9_000.0, None)],
)
def test_a_clock_that_was_set_back_postpones_nothing_for_long(kind, ahead, due):
    """What was due at once is due at once; a provider's limit is where the provider says."""
    made = schedule(waiting(kind=kind, due_at=NOW + ahead), rules=policy(backoff_cap=60.0))
    moved = [event.due_at - NOW for event in recover(made, NOW) if isinstance(event, ev.RetryDue)]
    assert moved == ([] if due is None else [due])


@pytest.mark.parametrize("recoverable", [True, False])
def test_what_an_agent_says_of_another_try_outlives_the_orchestrator(recoverable):
    outcome = outcome_after_crash(running(turn=1, turn_done=True), "failed", "no table", recoverable=recoverable)
    assert (outcome.status, outcome.error, outcome.retryable) == ("failed", "no table", recoverable)
