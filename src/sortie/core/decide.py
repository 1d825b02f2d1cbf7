"""What to do next: a pure function of the schedule, what is known beside it, and the time. The answer is events.

It keeps true, whatever the schedule holds: no more runs than slots, no session beyond a budget, no start of an
issue that is running; and none of one that is parked and unchanged, waiting for its time, blocked, or not active,
unless a person asked for it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from heapq import merge
from math import inf

from msgspec import Struct

from . import events as ev
from .model import like
from .policy import Spent, day_of, session_refused
from .ready_queue import Group, Order, ReadyQueue, dispatch_order, group_of, reason_against
from .records import Claim
from .schedule import Schedule


class Tick(Struct, frozen=True, kw_only=True):
    """`candidates_known` is False when the source did not answer; then nothing new starts.

    `day` is the one that pays, and empty where the calendar agrees with `now`. `places` are the hosts that take
    runs, None where any number of runs finds a host. `unsure` names issues that are not decided about.
    """

    now: float
    candidates_known: bool
    overdue: tuple[ev.Overdue, ...] = ()
    unsure: tuple[str, ...] = ()
    day: str = ""
    places: tuple[ev.Place, ...] | None = None

    def recorded(self, decided: int) -> ev.Ticked:
        """The tick as it is remembered, before the `decided` events that were the answer."""
        return like(ev.Ticked, self, at=self.now, decided=decided)


def decide(schedule: Schedule, tick: Tick, queue: ReadyQueue | None = None) -> list[ev.AnyEvent]:
    """`queue` is the kept one of this very schedule; without one the answer is the same and takes longer."""
    stops = _stops(schedule, tick)
    if not tick.candidates_known:
        return stops
    dispatch = _Dispatch(schedule, tick, queue or ReadyQueue.of(schedule))
    return [*stops, *dispatch.drops(), *dispatch.starts_and_skips()]


def run_id_of(schedule: Schedule, issue_id: str, now: float) -> str:
    """Sorts by time; the same decision has the same name."""
    digest = hashlib.sha256(f"{now!r}:{schedule.starts}:{issue_id}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{int(now * 1000):011x}-{digest[:8]}"


# The tables hand back what they remember in an order of their own. No answer may depend on it, or a log that
# spans a restart could not be replayed: whatever is not put in dispatch order is gone through by issue id.


def _stops(schedule: Schedule, tick: Tick) -> list[ev.AnyEvent]:
    """Runs that must end: overdue, or their issue is done, gone, or taken out of the active states."""
    late: dict[str, tuple[str, str]] = {item.run_id: (item.cause, item.detail) for item in tick.overdue}
    found: list[ev.AnyEvent] = []
    for _, run in sorted(schedule.running.items()):
        if run.stop or run.ended:
            continue
        reason = late.get(run.run_id)
        if reason is None and tick.candidates_known:
            reason = _lost_its_issue(schedule, run)
        if reason:
            cause, detail = reason
            found.append(
                ev.Stopping(at=tick.now, issue_id=run.issue_id, run_id=run.run_id, cause=cause, detail=detail)
            )
    return found


def _lost_its_issue(schedule: Schedule, run: Claim) -> tuple[str, str] | None:
    view = schedule.issues.get(run.issue_id)
    if view is None:
        return "gone", "the issue is no longer in the tracker"
    if run.by_hand and (view.state == run.asked_in or not schedule.policy.is_terminal(view.state)):
        return None  # a person wanted it in spite of that
    if schedule.policy.is_terminal(view.state):
        return "terminal", f"the issue moved to {view.state}"
    if schedule.policy.is_handoff(view.state):
        return None  # the agent handed its own issue over; its turn may end in peace
    if not schedule.policy.is_active(view.state):
        return "inactive", f"the issue moved to {view.state}, which is not an active state"
    return None


class _Dispatch:
    """One pass over the candidates, counting down what is still free. `held` is why a group goes no further."""

    def __init__(self, schedule: Schedule, tick: Tick, queue: ReadyQueue) -> None:
        self.schedule = schedule
        self.now = tick.now
        self.day = tick.day or day_of(tick.now)
        self.queue = queue
        self.free = schedule.policy.max_concurrent - len(schedule.running)
        places = (ev.Place(host=""),) if tick.places is None else tick.places
        self.room = {place.host: inf if place.free is None else place.free for place in places}
        self.by_state = Counter(
            schedule.issues[key].state.lower() for key in schedule.running if key in schedule.issues
        )
        self.today = schedule.spent_today(self.day)
        self.in_all = schedule.spent_in_all()
        self.tried = {
            run.paid_by for run in schedule.running.values() if run.run_id in schedule.trials and not run.ended
        }
        self.passed_over = {*schedule.running, *tick.unsure}
        self.held: dict[Group, tuple[str, str]] = {}
        self.due_in_vain: set[str] = set()
        self.found: list[tuple[int, Order, ev.AnyEvent]] = []

    def drops(self) -> list[ev.AnyEvent]:
        """Retries and parkings that lost their object because the issue left the active states."""
        schedule, found = self.schedule, list[ev.AnyEvent]()
        for issue_id in sorted(self.queue.fresh & schedule.waiting.keys() - self.passed_over):
            waiting = schedule.waiting[issue_id]
            asked_for = schedule.is_asked_for(issue_id) and issue_id in schedule.issues
            if not asked_for and (why := self._left(issue_id)):
                name = waiting.identifier
                found.append(ev.RetryDropped(at=self.now, issue_id=issue_id, identifier=name, why=why))
        for issue_id in sorted(self.queue.fresh & schedule.parked.keys() - self.passed_over):
            # Missing altogether proves nothing (a half-written file, a search index that lags): it stays parked, as
            # it does where it was when a run that a person had asked for ended there.
            view, park = schedule.issues.get(issue_id), schedule.parked[issue_id].park
            if view and view.state != park.state and (why := self._left(issue_id)):
                name = schedule.parked[issue_id].identifier
                found.append(ev.Unparked(at=self.now, issue_id=issue_id, identifier=name, why=why))
        return found

    def _left(self, issue_id: str) -> str:
        """Where an issue is that is not active any more, or an empty string."""
        view = self.schedule.issues.get(issue_id)
        if view is None:
            return "the issue is no longer in the tracker"
        return "" if self.schedule.policy.is_active(view.state) else f"the issue moved to {view.state}"

    def starts_and_skips(self) -> list[ev.AnyEvent]:
        for _, place in self._candidates():
            self._consider(self.schedule.issues[place[-1]])
        self._explain_the_rest()
        self.queue.decided(self.held)
        self.found.sort(key=lambda item: item[:2])
        return [event for _, _, event in self.found]

    # -- who could start --------------------------------------------------------------------------------------

    def _candidates(self) -> Iterator[tuple[int, Order]]:
        """In dispatch order; of a group that has no room, nobody further."""
        queues = [self._of_group(group, places) for group, places in sorted(self.queue.groups.items())]
        return merge(self._with_a_time(), *queues)

    def _of_group(self, group: Group, places: list[Order]) -> Iterator[tuple[int, Order]]:
        fault = self.schedule.fault_of(group.provider)
        ranked = sorted((self._rank(place[-1]), place) for place in places) if fault else ((0, p) for p in places)
        for rank, place in ranked:
            if group in self.held:
                return
            if place[-1] not in self.passed_over:
                yield rank, place

    def _with_a_time(self) -> Iterator[tuple[int, Order]]:
        """Those that were begun or asked for, whose time has come."""
        schedule = self.schedule
        due = []
        for issue_id, waiting in schedule.waiting.items():
            view = schedule.issues.get(issue_id)
            if view is None or issue_id in self.passed_over or waiting.retry.due_at > self.now:
                continue
            if waiting.retry.by_hand or (
                schedule.policy.is_active(view.state) and not reason_against(schedule, view)
            ):
                due.append((self._rank(issue_id), dispatch_order(view, waiting)))
            else:
                self.due_in_vain.add(issue_id)
        yield from sorted(due)

    def _rank(self, issue_id: str) -> int:
        """Whoever met a fault of the agent goes last: other issues show whether the fault is the agent's at all."""
        fault = self.schedule.fault_of(self.schedule.provider_of(self.schedule.issues[issue_id]))
        if fault is None:
            return 0
        waiting = self.schedule.waiting.get(issue_id)
        return (issue_id == fault.issue_id) + (waiting is not None and waiting.retry.kind == "held")

    # -- one candidate ----------------------------------------------------------------------------------------

    def _consider(self, view: ev.View) -> None:
        if self._is_over_budget(view):
            return
        group = group_of(self.schedule, view)
        refused = self.held.get(group) or self._no_room(group, view)
        if not refused:
            self._start(view)
            return
        self.held[group] = refused
        if view.id in self.schedule.waiting:
            self._skip(view, refused)

    def _no_room(self, group: Group, view: ev.View) -> tuple[str, str] | None:
        policy, fault = self.schedule.policy, self.schedule.fault_of(group.provider)
        if fault and (fault.until > self.now or group.provider in self.tried):
            return "agent-held", fault.detail
        pause = self.schedule.pauses.get(group.provider)
        if pause and pause.until > self.now:
            return "provider-paused", group.provider
        if spent := session_refused(self.today, policy.per_day):
            return "day-budget", spent
        if spent := session_refused(self.in_all, policy.in_all):
            return "whole-budget", spent
        if self.free <= 0:
            return "no-slot", f"{policy.max_concurrent} agents run already"
        cap = policy.max_concurrent_by_state.get(group.state)
        if cap is not None and self.by_state[group.state] >= cap:
            return "no-state-slot", f"{cap} agents run in state {view.state} already"
        if self._host() is None:
            return "no-host", "no host takes another run"
        return None

    def _host(self) -> str | None:
        """The one with the most room, by name where several have it; one that takes any number comes first."""
        best = min(self.room, key=lambda host: (-self.room[host], host), default=None)
        return best if best is not None and self.room[best] > 0 else None

    def _start(self, view: ev.View) -> None:
        provider, host = self.schedule.provider_of(view), self._host() or ""
        self.free -= 1
        self.today, self.in_all = (spent.plus(Spent(sessions=1)) for spent in (self.today, self.in_all))
        self.by_state[view.state.lower()] += 1
        if self.schedule.fault_of(provider):
            self.tried.add(provider)
        self.room[host] -= 1
        cause, failures = self._cause(view)
        attempt, session_id = self.schedule.reached(view.id)
        agent = self.schedule.agent_of(view)
        claimed = ev.Claimed(
            at=self.now,
            issue_id=view.id,
            run_id=run_id_of(self.schedule, view.id, self.now),
            identifier=view.identifier,
            attempt=attempt + 1,
            failures=failures,
            cause=cause,
            agent=agent,
            session_id=session_id,
            day=self.day,
            provider="" if provider == agent else provider,
            host=host,
            asked_in=view.state if self.schedule.is_asked_for(view.id) else "",
        )
        self._tell(view, claimed)

    def _cause(self, view: ev.View) -> tuple[str, int]:
        """Why it starts, and after how many failures in a row."""
        if waiting := self.schedule.waiting.get(view.id):
            return waiting.retry.kind, waiting.retry.failures
        if parked := self.schedule.parked.get(view.id):
            if parked.park.kind == "budget":
                return "budget", 0
            return "answered" if self.schedule.answers_for(view.id) else "changed", 0
        return "new", 0

    def _is_over_budget(self, view: ev.View) -> bool:
        """Whether the budget of the issue is used up, for which it is parked."""
        spent = session_refused(self.schedule.spent_on(view.id), self.schedule.limits_of(view))
        if not spent:
            return False
        parked = self.schedule.parked.get(view.id)
        if parked and parked.park.kind == "budget":
            self._skip(view, ("parked", parked.park.reason))
            return True
        attempt, session_id = self.schedule.reached(view.id)
        reason = f"the budget of this issue is used up: {spent}"
        park = ev.Park(
            kind="budget",
            reason=reason,
            fingerprint="",
            attempt=attempt,
            session_id=session_id,
            state=view.state if self.schedule.is_asked_for(view.id) else "",
        )
        self._tell(view, ev.Parked(at=self.now, issue_id=view.id, identifier=view.identifier, park=park))
        return True

    # -- why the others do not --------------------------------------------------------------------------------

    def _explain_the_rest(self) -> None:
        """Say of each issue that stays why, where that is not on record: of those that changed, and of whole groups
        whose reason changed."""
        told = {event.issue_id for _, _, event in self.found} | self.passed_over
        unexplained = self.queue.fresh | self.due_in_vain
        for group, places in self.queue.groups.items():
            if self.held.get(group) != self.queue.held.get(group):
                unexplained.update(place[-1] for place in places)
        for issue_id in unexplained - told:
            view = self.schedule.issues.get(issue_id)
            if view is not None and self.schedule.policy.is_active(view.state):
                self._explain(view)

    def _explain(self, view: ev.View) -> None:
        waiting = self.schedule.waiting.get(view.id)
        reason = None if self.schedule.is_asked_for(view.id) else reason_against(self.schedule, view)
        if waiting and waiting.retry.due_at > self.now and (reason is None or reason[0] == "blocked-by"):
            reason = ("waiting", waiting.retry.kind)
        if reason is None and not self._is_over_budget(view):
            reason = self.held.get(group_of(self.schedule, view))
        if reason:
            self._skip(view, reason)

    def _skip(self, view: ev.View, reason: tuple[str, str]) -> None:
        if self.schedule.skips.get(view.id) == reason:
            return
        rule, detail = reason
        self._tell(
            view,
            ev.Skipped(at=self.now, issue_id=view.id, identifier=view.identifier, rule=rule, detail=detail),
        )

    def _tell(self, view: ev.View, event: ev.AnyEvent) -> None:
        order = dispatch_order(view, self.schedule.waiting.get(view.id))
        self.found.append((self._rank(view.id), order, event))
