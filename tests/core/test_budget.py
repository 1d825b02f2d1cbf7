"""Limits are reached exactly, never passed, and the refusal says which one it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.policy import Limits, Spent, budget_reason, day_of, session_refused, turn_refused
from sortie.core.schedule import Schedule

from .facts import DAY, NOW, POLICY, running, schedule

NEXT_DAY = "2026-03-31"


@pytest.mark.parametrize(("scope", "words"), [("turns", "5 turns"), ("tokens", "5 tokens"), ("usd", "$5.00")])
def test_a_used_up_limit_refuses_sessions_and_turns(scope, words):
    limits = Limits(**{scope: 5})
    below: dict[str, Any] = {scope: 4}
    at: dict[str, Any] = {scope: 5}
    for refused in (session_refused, turn_refused):
        assert refused(Spent(**below), limits) == ""
        assert words in refused(Spent(**at), limits)


def test_used_up_sessions_refuse_a_session_but_not_the_turns_of_the_last_one():
    spent, limits = Spent(sessions=3), Limits(sessions=3)
    assert "3 sessions" in session_refused(spent, limits)
    assert turn_refused(spent, limits) == ""


def test_no_limits_refuse_nothing():
    assert session_refused(Spent(10**6, 10**6, 10**9, 1e6), Limits()) == ""


@given(more=st.integers(0, 10**6))
def test_a_refusal_reads_the_same_while_spending_goes_on(more):
    """Or every tick would record it anew for every issue that waits for the next day."""
    limits = Limits(tokens=1000)
    assert session_refused(Spent(tokens=1000), limits) == session_refused(Spent(tokens=1000 + more), limits)


def test_cached_tokens_are_not_counted_twice():
    made = Schedule()
    made.apply(ev.Charged(at=NOW, issue_id="1", usage=Usage(100, 20, cache_read=70, cost_usd=0.5), day=DAY))
    assert made.spent_on("1") == Spent(tokens=120, usd=0.5)


def test_the_day_is_that_of_utc():
    assert day_of(NOW) == DAY
    assert day_of(NOW + 20 * 60) == NEXT_DAY


def claimed(issue_id: str = "1", day: str = DAY) -> ev.Claimed:
    return ev.Claimed(at=NOW, issue_id=issue_id, run_id=f"r{issue_id}", identifier="D-1", attempt=1, day=day)


def settled(refund: str) -> ev.Settled:
    return ev.Settled(at=NOW, issue_id="1", run_id="r1", identifier="D-1", why="limit", refund=refund)


def test_a_refund_returns_the_session_to_the_issue_and_the_day():
    made = Schedule(POLICY)
    made.apply(claimed())
    made.apply(settled(refund=DAY))
    assert made.spent_on("1") == Spent()
    assert made.spent_today(DAY) == Spent()


def test_a_refund_for_yesterday_leaves_today_alone():
    made = Schedule(POLICY)
    made.apply(claimed("1", DAY))
    made.apply(claimed("2", NEXT_DAY))
    made.apply(settled(refund=DAY))
    assert made.spent_on("1") == Spent()
    assert made.spent_today(NEXT_DAY) == Spent(sessions=1)


def test_a_clock_that_is_set_back_and_forth_gives_no_day_a_second_budget():
    made = Schedule(POLICY)
    made.apply(claimed("1", NEXT_DAY))
    made.apply(claimed("2", DAY))
    assert made.spent_today(DAY) == Spent(sessions=1), "what is spent on an earlier day counts there"
    assert made.spent_today(NEXT_DAY) == Spent(sessions=1), "and the later one is not forgotten"


def test_turns_and_usage_are_charged_to_the_issue_and_the_day():
    made = schedule(running())
    made.apply(ev.TurnStarted(at=NOW, issue_id="1", run_id="r1", turn=1, day=DAY))
    made.apply(ev.Charged(at=NOW, issue_id="1", run_id="r1", usage=Usage(10, 5, cost_usd=0.25), day=DAY))
    assert made.spent_on("1") == made.spent_today(DAY) == Spent(turns=1, tokens=15, usd=0.25)
    assert made.spent_today(NEXT_DAY) == Spent()


def test_unparking_by_hand_resets_the_budget_of_the_issue_but_not_that_of_the_day():
    made = schedule(running())
    made.apply(ev.TurnStarted(at=NOW, issue_id="1", run_id="r1", turn=1, day=DAY))
    made.apply(ev.Unparked(at=NOW, issue_id="1", identifier="D-1", why="by hand", reset_budget=True))
    assert made.spent_on("1") == Spent()
    assert made.spent_today(DAY) == Spent(turns=1)


@pytest.mark.parametrize("limit", ["sessions", "turns", "tokens", "usd"])
def test_a_refusal_tells_which_limit_it_is_about(limit):
    refused = session_refused(Spent(9999, 9999, 9999, 9999.0), Limits(**{limit: 5000}))
    assert budget_reason(f"the budget of this issue is used up: {refused}") == limit
