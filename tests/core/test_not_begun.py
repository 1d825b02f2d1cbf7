"""Rows `not begun` of the exit table: a run that was claimed, and whose issue was found unreadable or blocked."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from sortie.core.conclude import FREE_SILENCES, LONGEST_SILENCE, SHORTEST_LIMIT, Outcome
from sortie.core.conclude import stopped as stopped_by

from .facts import NOW, POLICY, running
from .test_conclude import ended, follows


def unasked(until: float | None = None) -> Outcome:
    return replace(stopped_by(ended("cancelled", turns=0), "unasked", "no answer"), limited_until=until)


def test_a_run_whose_issue_nobody_could_read_is_not_begun():
    """It keeps its attempt and its session; each silence in a row makes the next try later."""
    first, later = (follows(unasked(), run=running(attempt=3, failures=n)).retry for n in (0, 4))
    assert first and later
    assert (first.kind, first.attempt, first.failures, first.session_id) == ("error", 3, 1, "s1")
    assert NOW < first.due_at < later.due_at <= NOW + POLICY.backoff_cap
    settlement = follows(unasked())
    assert (settlement.refund, settlement.park, settlement.pause_until) == (True, None, None)


def test_an_issue_that_nobody_can_read_for_long_is_charged_for_its_runs():
    """Else it would be tried for ever, whatever its budget, and `--until-idle` would never come to an end."""
    last, further = (follows(unasked(), run=running(failures=n)) for n in (FREE_SILENCES - 1, FREE_SILENCES))
    assert (last.refund, further.refund) == (True, False)
    assert further.retry
    assert follows(unasked(NOW + 600), run=running(failures=99)).refund, "a limit says nothing of this issue"


@pytest.mark.parametrize(
    ("until", "due"),
    [
        (NOW + 600, NOW + 600),
        (NOW - 5, NOW + SHORTEST_LIMIT),
        (1e15, NOW + LONGEST_SILENCE),
        (math.nan, NOW + SHORTEST_LIMIT),
    ],
)
def test_where_the_tracker_says_when_it_answers_again_that_is_the_time_within_bounds(until, due):
    retry = follows(unasked(until), run=running(attempt=3, failures=2)).retry
    assert retry
    assert (retry.due_at, retry.attempt, retry.failures) == (due, 3, 2)


def test_a_run_whose_issue_is_blocked_after_all_is_released_and_costs_no_session():
    settlement = follows(stopped_by(ended("cancelled", turns=0), "blocked", "it waits for others: T-2"))
    assert (settlement.retry, settlement.park, settlement.refund) == (None, None, True)
    assert settlement.why == "it waits for others: T-2"
