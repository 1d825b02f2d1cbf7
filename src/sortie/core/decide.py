"""What to do next: a pure function of the schedule, what this tick found out, and the time.

It keeps true, whatever the schedule holds: no more runs than slots, no session beyond a budget, no start of an
issue that is running, parked and unchanged, waiting for its time, blocked, or not active.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from . import actions as act
from . import events as ev
from .budget import day_of, session_refused
from .schedule import ParkedIssue, Schedule, Waiting


class Tick(Struct, frozen=True, kw_only=True):
    """`candidates_known` is False when the tracker did not answer; then nothing new starts.

    `day` is the one that pays, and empty where the calendar agrees with `now`.

    `unsure` names issues whose run ended while the tracker was being read: what it said of them may be older
    than that end, so nothing is decided about them before the next look.
    """

    now: float
    candidates_known: bool
    overdue: tuple[act.Overdue, ...] = ()
    unsure: tuple[str, ...] = ()
    day: str = ""


def decide(schedule: Schedule, tick: Tick) -> list[act.Action]:
    stops = _stops(schedule, tick)
    if not tick.candidates_known:
        return list(stops)
    return [*stops, *_drops(schedule, tick), *_Dispatch(schedule, tick).actions()]


# The tables hand back what they remember in an order of their own. No answer may depend on it, or a log that
# spans a restart could not be replayed: whatever is not put in dispatch order is gone through by issue id.


def _stops(schedule: Schedule, tick: Tick) -> list[act.Stop]:
    """Runs that must end: overdue, or their issue is done, gone, or taken out of the active states."""
    late = {item.run_id: item for item in tick.overdue}
    found = []
    for _, run in sorted(schedule.running.items()):
        if run.stop or run.ended:
            continue
        if item := late.get(run.run_id):
            found.append(_stop(run.issue_id, run.run_id, item.cause, item.detail))
        elif tick.candidates_known and (reason := _lost_its_issue(schedule, run.issue_id)):
            found.append(_stop(run.issue_id, run.run_id, *reason))
    return found


def _stop(issue_id: str, run_id: str, cause: act.StopCause, detail: str) -> act.Stop:
    return act.Stop(issue_id=issue_id, run_id=run_id, cause=cause, detail=detail)


def _lost_its_issue(schedule: Schedule, issue_id: str) -> tuple[act.StopCause, str] | None:
    view = schedule.issues.get(issue_id)
    if view is None:
        return "gone", "the issue is no longer in the tracker"
    if schedule.policy.is_terminal(view.state):
        return "terminal", f"the issue moved to {view.state}"
    handoff = schedule.policy.handoff_state
    if handoff and view.state.lower() == handoff.lower():
        return None  # the agent handed its own issue over; its turn may end in peace
    if not schedule.policy.is_active(view.state):
        return "inactive", f"the issue moved to {view.state}, which is not an active state"
    return None


def _drops(schedule: Schedule, tick: Tick) -> list[act.Action]:
    """Retries and parkings that lost their object because the issue left the active states."""
    found: list[act.Action] = []
    for issue_id, waiting in sorted(schedule.waiting.items()):
        if issue_id not in tick.unsure and not _is_active(schedule, issue_id):
            why = _where(schedule, issue_id)
            found.append(act.DropRetry(issue_id=issue_id, identifier=waiting.identifier, why=why))
    for issue_id, aside in sorted(schedule.parked.items()):
        # Missing altogether proves nothing (a half-written file, a search index that lags): it stays parked.
        if issue_id not in tick.unsure and issue_id in schedule.issues and not _is_active(schedule, issue_id):
            why = _where(schedule, issue_id)
            found.append(act.Unpark(issue_id=issue_id, identifier=aside.identifier, why=why))
    return found


def _is_active(schedule: Schedule, issue_id: str) -> bool:
    view = schedule.issues.get(issue_id)
    return view is not None and schedule.policy.is_active(view.state)


def _where(schedule: Schedule, issue_id: str) -> str:
    view = schedule.issues.get(issue_id)
    return f"the issue moved to {view.state}" if view else "the issue is no longer in the tracker"


def dispatch_order(view: ev.View, waiting: Waiting | None) -> tuple[float, bool, bool, str, str, str]:
    """Priority first; then what was begun before what is new; then the oldest; the names settle ties."""
    priority = float("inf") if view.priority is None else float(view.priority)
    return (priority, waiting is None, not view.created_at, view.created_at, view.identifier, view.id)


def _freed_by_change(view: ev.View, aside: ParkedIssue) -> bool:
    """Whether a person touched the issue since it was parked. Not knowing is no change, and what a person stopped
    by hand is freed by hand."""
    if aside.park.kind == "operator":
        return False
    return bool(view.fingerprint) and view.fingerprint != aside.park.fingerprint


def _start(view: ev.View, attempt: int, cause: str, session_id: str = "", failures: int = 0) -> act.Start:
    return act.Start(
        issue_id=view.id,
        identifier=view.identifier,
        attempt=attempt,
        failures=failures,
        cause=cause,
        session_id=session_id,
    )


class _Dispatch:
    """One pass over the candidates, counting down what is still free."""

    def __init__(self, schedule: Schedule, tick: Tick) -> None:
        self.schedule = schedule
        self.now = tick.now
        self.free = schedule.policy.max_concurrent - len(schedule.running)
        self.by_state = self._running_by_state()
        self.today = schedule.spent_today(tick.day or day_of(tick.now))
        self.fault = schedule.fault_of(schedule.policy.provider)
        self.tried = self._is_tried()
        self.started = 0
        self.passed_over = {*schedule.running, *tick.unsure}

    def actions(self) -> list[act.Action]:
        found: list[act.Action] = []
        for view in self._candidates():
            found.extend(self._consider(view))
        return found

    def _candidates(self) -> list[ev.View]:
        views = [view for view in self.schedule.issues.values() if view.id not in self.passed_over]
        return sorted(views, key=self._place)

    def _place(self, view: ev.View) -> tuple[int, tuple[object, ...]]:
        return self._met_the_fault(view), dispatch_order(view, self.schedule.waiting.get(view.id))

    def _met_the_fault(self, view: ev.View) -> int:
        """Whoever met a fault of the agent goes last: other issues show whether the fault is the agent's at all."""
        if self.fault is None:
            return 0
        waiting = self.schedule.waiting.get(view.id)
        return (view.id == self.fault.issue_id) + (waiting is not None and waiting.retry.kind == "held")

    def _running_by_state(self) -> Counter[str]:
        views = (self.schedule.issues.get(issue_id) for issue_id in self.schedule.running)
        return Counter(view.state.lower() for view in views if view)

    def _consider(self, view: ev.View) -> list[act.Action]:
        if not self.schedule.policy.is_active(view.state):
            return []
        if refused := self._not_eligible(view):
            return self._skip(view, *refused)
        if spent := session_refused(self.schedule.spent_on(view.id), self.schedule.policy.per_issue):
            return self._over_budget(view, f"the budget of this issue is used up: {spent}")
        if refused := self._no_room(view):
            return self._skip(view, *refused)
        return self._start(view)

    def _not_eligible(self, view: ev.View) -> tuple[str, str] | None:
        if not (view.id and view.identifier and view.title):
            return "incomplete", "id, identifier and title are needed"
        aside = self.schedule.parked.get(view.id)
        if aside and aside.park.kind != "budget" and not _freed_by_change(view, aside):
            return "parked", aside.park.reason
        waiting = self.schedule.waiting.get(view.id)
        if waiting and waiting.retry.due_at > self.now:
            return "waiting", waiting.retry.kind
        if view.blocked_by:
            return "blocked-by", ", ".join(view.blocked_by)
        return None

    def _no_room(self, view: ev.View) -> tuple[str, str] | None:
        policy = self.schedule.policy
        if self.fault and (self.fault.until > self.now or self.tried):
            return "agent-held", self.fault.detail
        pause = self.schedule.pauses.get(policy.provider)
        if pause and pause.until > self.now:
            return "provider-paused", policy.provider
        if spent := session_refused(self.today.plus(sessions=self.started), policy.per_day):
            return "day-budget", spent
        if self.free <= 0:
            return "no-slot", f"{policy.max_concurrent} agents run already"
        cap = policy.max_concurrent_by_state.get(view.state.lower())
        if cap is not None and self.by_state[view.state.lower()] >= cap:
            return "no-state-slot", f"{cap} agents run in state {view.state} already"
        return None

    def _is_tried(self) -> bool:
        """Whether a run is under way that will show if the agent works again: one at a time is enough."""
        return any(run.run_id in self.schedule.trials and not run.ended for run in self.schedule.running.values())

    def _start(self, view: ev.View) -> list[act.Action]:
        self.free -= 1
        self.started += 1
        self.tried = self.fault is not None
        self.by_state[view.state.lower()] += 1
        if waiting := self.schedule.waiting.get(view.id):
            retry = waiting.retry
            return [_start(view, retry.attempt, retry.kind, retry.session_id, retry.failures)]
        if aside := self.schedule.parked.get(view.id):
            cause = "budget" if aside.park.kind == "budget" else "changed"
            return [_start(view, aside.park.attempt + 1, cause, aside.park.session_id)]
        return [_start(view, 1, "new")]

    def _over_budget(self, view: ev.View, reason: str) -> list[act.Action]:
        waiting, aside = self.schedule.waiting.get(view.id), self.schedule.parked.get(view.id)
        if aside and aside.park.kind == "budget":
            return self._skip(view, "parked", aside.park.reason)
        attempt, session_id = 0, ""
        if waiting:
            attempt, session_id = waiting.retry.attempt - 1, waiting.retry.session_id
        elif aside:
            attempt, session_id = aside.park.attempt, aside.park.session_id
        return [
            act.ParkIssue(
                issue_id=view.id,
                identifier=view.identifier,
                reason=reason,
                attempt=attempt,
                session_id=session_id,
            )
        ]

    def _skip(self, view: ev.View, rule: str, detail: str) -> list[act.Action]:
        if self.schedule.skips.get(view.id) == (rule, detail):
            return []
        return [act.Skip(issue_id=view.id, identifier=view.identifier, rule=rule, detail=detail)]
