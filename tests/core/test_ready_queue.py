"""A queue that is kept looks at few issues, however many there are, and says what a fresh one says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sortie.core import events as ev
from sortie.core.decide import Tick, decide
from sortie.core.policy import Limits, Spent
from sortie.core.ready_queue import ReadyQueue
from sortie.core.schedule import Schedule

from .facts import NOW, policy, verdict, view

ISSUES = 10_000
FEW = 50


@dataclass
class Counting(Schedule):
    """Counts how often an issue is looked at: none can be told about without its agent or its budget."""

    looked_at: int = 0

    def spent_on(self, issue_id: str) -> Spent:
        self.looked_at += 1
        return super().spent_on(issue_id)

    def provider_of(self, view: ev.View) -> str:
        self.looked_at += 1
        return super().provider_of(view)


class Service:
    """Keeps a schedule and its queue, as the engine does."""

    def __init__(self, **rules: Any) -> None:
        self.schedule = Counting(policy(**rules))
        for number in range(ISSUES):
            state = "In Progress" if number % 2 else "Todo"
            one = view(str(number), priority=number % 5, created_at=f"2026-01-{number % 28 + 1:02}", state=state)
            self.schedule.issues[one.id] = one
        self.queue = ReadyQueue.of(self.schedule)
        self.now = NOW

    def post(self, *events: ev.AnyEvent) -> None:
        for event in events:
            self.queue.touch(self.schedule, event, self.schedule.apply(event))

    def decide(self) -> list[ev.AnyEvent]:
        """With the kept queue; `looked_at` counts from zero."""
        tick = Tick(now=self.now, candidates_known=True)
        expected = decide(self.schedule, tick)
        self.schedule.looked_at = 0
        events = decide(self.schedule, tick, self.queue)
        assert events == expected
        looked_at = self.schedule.looked_at
        self.post(*events)
        self.schedule.looked_at = looked_at
        return events

    def end_one(self) -> str:
        issue_id, run = next(iter(self.schedule.running.items()))
        ended = verdict(issue_id, run_id=run.run_id)
        settled = ev.Settled(at=NOW, issue_id=issue_id, run_id=run.run_id, identifier=run.identifier, why="done")
        left = ev.IssueLeft(at=NOW, issue_id=issue_id, identifier=run.identifier)
        self.post(ended, left, settled)
        return issue_id


@pytest.fixture
def service():
    made = Service(max_concurrent=8)
    assert len(made.decide()) == ISSUES
    return made


def test_a_decision_without_a_reason_looks_at_nobody_but_the_first_of_each_group(service):
    assert service.decide() == []
    assert service.schedule.looked_at <= FEW


def test_the_end_of_a_run_starts_the_next_and_looks_at_few(service):
    for _ in range(5):
        service.end_one()
        (start,) = service.decide()
        assert isinstance(start, ev.Claimed)
        assert service.schedule.looked_at <= FEW


def test_a_change_to_one_issue_looks_at_that_one(service):
    service.post(ev.IssueSeen(at=NOW, issue_id="9999", view=view("9999", priority=0, blocked_by=("D-1",))))
    (skip,) = service.decide()
    assert isinstance(skip, ev.Skipped)
    assert (skip.issue_id, skip.rule) == ("9999", "blocked-by")
    assert service.schedule.looked_at <= FEW


def test_a_reason_that_changes_for_all_is_told_to_all_once(service):
    paused = ev.ProviderPaused(at=NOW, provider="command", until=NOW + 60, detail="slow down")
    service.post(paused)
    assert len(service.decide()) == ISSUES - 8
    assert service.decide() == []
    assert service.schedule.looked_at <= FEW


def test_other_rules_make_another_queue(service):
    service.post(ev.PolicySet(at=NOW, policy=policy(max_concurrent=9, per_issue=Limits(sessions=3))))
    starts = [event for event in service.decide() if isinstance(event, ev.Claimed)]
    assert len(starts) == 1
    assert service.decide() == []
    assert service.schedule.looked_at <= FEW
