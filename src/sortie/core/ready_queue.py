"""Which issues could start, in dispatch order: kept up to date issue by issue, so that a decision looks at few.

A queue is derived from a Schedule and says nothing that a fresh one would not say (`ReadyQueue.of`); it only saves
the walk over all issues. Issues of one group stand and fall together: they share agent, account and tracker state,
so whatever has no room for the first of them has none for the others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from . import events as ev
from .records import Waiting
from .schedule import Schedule, Touched

Order = tuple[float, bool, bool, str, str, str]


class Group(NamedTuple):
    provider: str
    state: str


def dispatch_order(view: ev.View, waiting: Waiting | None) -> Order:
    """Priority first; then what was begun before what is new; then the oldest; the names settle ties."""
    priority = float("inf") if view.priority is None else float(view.priority)
    return (priority, waiting is None, not view.created_at, view.created_at, view.identifier, view.id)


class ReadyQueue:
    """`fresh` are the issues that changed since the last decision; `held` is why each group did not start then."""

    def __init__(self) -> None:
        self.groups: dict[Group, list[Order]] = {}
        self.fresh: set[str] = set()
        self.held: dict[Group, tuple[str, str]] = {}
        self._places: dict[str, tuple[Group, Order]] = {}

    @classmethod
    def of(cls, schedule: Schedule) -> ReadyQueue:
        queue = cls()
        for issue_id in (*schedule.issues, *schedule.waiting, *schedule.parked):
            queue.update(schedule, issue_id)
        return queue

    def touch(self, schedule: Schedule, event: ev.AnyEvent, rows: Iterable[Touched]) -> None:
        """Take in what an event changed."""
        if isinstance(event, ev.PolicySet):
            vars(self).update(vars(ReadyQueue.of(schedule)))
        if isinstance(event, ev.Skipped):
            return  # a decision of ours: nobody becomes ready by it
        if isinstance(event, ev.Answered):
            self.update(schedule, event.issue_id)
        for row in rows:
            if row.part in (
                "issues",
                "running",
                "waiting",
                "parked",
                "spent",
            ):
                self.update(schedule, row.key)

    def update(self, schedule: Schedule, issue_id: str) -> None:
        """Put one issue where it belongs now: into its group, or out of all."""
        self._remove(issue_id)
        self.fresh.add(issue_id)
        view = schedule.issues.get(issue_id)
        if view is None or issue_id in schedule.running or issue_id in schedule.waiting:
            return  # those with a time of their own are few, and looked at one by one
        if schedule.policy.is_active(view.state) and reason_against(schedule, view) is None:
            group = group_of(schedule, view)
            place = dispatch_order(view, None)
            insort(self.groups.setdefault(group, []), place)
            self._places[issue_id] = (group, place)

    def decided(self, held: dict[Group, tuple[str, str]]) -> None:
        """A decision was made and applied; `held` is what it found for each group that did not start whole."""
        self.fresh.clear()
        self.held = held

    def _remove(self, issue_id: str) -> None:
        if found := self._places.pop(issue_id, None):
            group, place = found
            places = self.groups[group]
            del places[bisect_left(places, place)]
            if not places:
                del self.groups[group]


def group_of(schedule: Schedule, view: ev.View) -> Group:
    return Group(schedule.provider_of(view), view.state.lower())


def reason_against(schedule: Schedule, view: ev.View) -> tuple[str, str] | None:
    """The rule that keeps an active issue from starting whatever room there is; its time and its budget apart."""
    if not (view.id and view.identifier and view.title):
        return "incomplete", "id, identifier and title are needed"
    parked = schedule.parked.get(view.id)
    if parked and parked.park.kind != "budget":
        # Not knowing is no change, and what a person stopped by hand is freed by hand.
        changed = bool(view.fingerprint) and view.fingerprint != parked.park.fingerprint
        # A person answered while the agent was still at work, and it has not heard of it.
        answered = parked.park.kind == "signal" and bool(schedule.answers_for(view.id))
        if not (changed or answered) or parked.park.kind == "operator":
            return "parked", parked.park.reason
    if view.blocked_by:
        return "blocked-by", ", ".join(view.blocked_by)
    return None
