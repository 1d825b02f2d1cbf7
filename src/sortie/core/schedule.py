"""The scheduling state: a fold over the event log, constant in size for each issue.

`apply` is the only thing that changes a Schedule. The engine applies an event after it is committed; a replay
applies the same events from the log and must reach the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from . import events as ev
from .budget import Spent
from .policy import Policy


class Running(Struct, frozen=True, kw_only=True):
    """One claimed issue. `ended` is set once the verdict is in and only our own writes remain to be made."""

    issue_id: str
    identifier: str
    run_id: str
    attempt: int
    failures: int
    claimed_at: float
    agent: str = ""
    turn: int = 0
    stop: str = ""
    stop_detail: str = ""
    ended: bool = False


class Waiting(Struct, frozen=True, kw_only=True):
    """An issue whose next run has a time."""

    issue_id: str
    identifier: str
    retry: ev.Retry


class ParkedIssue(Struct, frozen=True, kw_only=True):
    """A parked issue."""

    issue_id: str
    identifier: str
    park: ev.Park
    since: float


class Pause(Struct, frozen=True, kw_only=True):
    """Why no run of an agent starts; `issue_id` is the issue whose run met the fault last, if one did."""

    until: float
    error_kind: str
    detail: str
    tries: int = 0
    issue_id: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether the agent itself is at fault; a limit of its provider ends with time."""
        return self.error_kind != "rate_limited"


@dataclass
class Schedule:
    """`proofs` is when each agent last completed a turn, `faults` when a run of an issue last met a fault of its
    agent, `trials` the runs that began in spite of a known fault, to see whether it is gone. All of it lives in
    memory only: not knowing it costs one more try.
    """

    policy: Policy
    issues: dict[str, ev.View] = field(default_factory=dict)
    skips: dict[str, tuple[str, str]] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    parked: dict[str, ParkedIssue] = field(default_factory=dict)
    pauses: dict[str, Pause] = field(default_factory=dict)
    proofs: dict[str, float] = field(default_factory=dict, compare=False)
    faults: dict[str, float] = field(default_factory=dict, compare=False)
    trials: set[str] = field(default_factory=set, compare=False)
    spent: dict[str, Spent] = field(default_factory=dict)
    days: dict[str, Spent] = field(default_factory=dict)

    def spent_on(self, issue_id: str) -> Spent:
        return self.spent.get(issue_id, Spent())

    def spent_today(self, day: str) -> Spent:
        """Each day has an account of its own: a clock that is set back and forth gives none a second budget."""
        return self.days.get(day, Spent())

    def fault_of(self, agent: str) -> Pause | None:
        """What keeps this agent from working at all, as far as is known."""
        pause = self.pauses.get(agent)
        return pause if pause and pause.is_fault else None

    def works_for_others(self, run: Running) -> bool:
        """Whether the agent of this run has completed a turn since it last failed for this very issue."""
        failed_at = self.faults.get(run.issue_id)
        return failed_at is not None and self.proofs.get(run.agent, failed_at) > failed_at

    def apply(self, event: ev.AnyEvent) -> None:
        """Make the event part of the state."""
        match event:
            case ev.PolicySet():
                self.policy = event.policy
            case ev.IssueSeen():
                self.issues[event.issue_id] = event.view
            case ev.IssueLeft():
                self.issues.pop(event.issue_id, None)
                self.skips.pop(event.issue_id, None)
            case ev.Skipped():
                self.skips[event.issue_id] = (event.rule, event.detail)
            case ev.Claimed():
                self._claim(event)
            case ev.TurnStarted():
                self._update(event.issue_id, turn=event.turn)
                self._charge(event.issue_id, event.day, turns=1)
            case ev.TurnEnded():
                self._prove(event)
            case ev.Charged():
                self._charge(event.issue_id, event.day, charge=event)
            case ev.Stopping():
                self._update(event.issue_id, stop=event.cause, stop_detail=event.detail)
            case ev.RunEnded():
                self._update(event.issue_id, ended=True)
            case ev.Settled():
                self._settle(event)
            case ev.RetryDropped():
                self.waiting.pop(event.issue_id, None)
            case ev.RetryDue():
                self._move_retry(event)
            case ev.Parked():
                self._park(event.issue_id, event.identifier, event.park, event.at)
            case ev.Unparked():
                self._unpark(event)
            case ev.ProviderPaused():
                self._pause(event)
            case ev.ProviderResumed():
                self.pauses.pop(event.provider, None)
            case _:
                pass  # every other event is history, not scheduling state

    def _claim(self, event: ev.Claimed) -> None:
        assert event.issue_id not in self.running, "an issue has at most one live run"
        self.running[event.issue_id] = Running(
            issue_id=event.issue_id,
            identifier=event.identifier,
            run_id=event.run_id,
            attempt=event.attempt,
            failures=event.failures,
            claimed_at=event.at,
            agent=event.agent,
        )
        if self.fault_of(event.agent):
            self.trials.add(event.run_id)
        self.waiting.pop(event.issue_id, None)
        self.parked.pop(event.issue_id, None)
        self.skips.pop(event.issue_id, None)
        self._charge(event.issue_id, event.day, sessions=1)

    def _unpark(self, event: ev.Unparked) -> None:
        self.parked.pop(event.issue_id, None)
        if event.reset_budget:
            self.spent.pop(event.issue_id, None)
        if event.retry:
            self._wait(event.issue_id, event.identifier, event.retry)

    def _wait(self, issue_id: str, identifier: str, retry: ev.Retry) -> None:
        self.waiting[issue_id] = Waiting(issue_id=issue_id, identifier=identifier, retry=retry)

    def _settle(self, event: ev.Settled) -> None:
        self.running.pop(event.issue_id, None)
        self.trials.discard(event.run_id)
        if event.refund:
            self._charge(event.issue_id, event.refund, sessions=-1, turns=-event.refund_turns)
        if event.retry:
            self._wait(event.issue_id, event.identifier, event.retry)
            if event.retry.kind == "held":
                self.faults[event.issue_id] = event.at
        if event.park:
            self._park(event.issue_id, event.identifier, event.park, event.at)

    def _pause(self, event: ev.ProviderPaused) -> None:
        self.pauses[event.provider] = Pause(
            until=event.until,
            error_kind=event.error_kind,
            detail=event.detail,
            tries=event.tries,
            issue_id=event.issue_id,
        )

    def _prove(self, event: ev.TurnEnded) -> None:
        self.faults.pop(event.issue_id, None)
        if run := self.running.get(event.issue_id):
            self.proofs[run.agent] = event.at

    def _park(self, issue_id: str, identifier: str, park: ev.Park, at: float) -> None:
        self.waiting.pop(issue_id, None)
        self.parked[issue_id] = ParkedIssue(issue_id=issue_id, identifier=identifier, park=park, since=at)

    def _move_retry(self, event: ev.RetryDue) -> None:
        if waiting := self.waiting.get(event.issue_id):
            moved = replace(waiting.retry, due_at=event.due_at)
            self.waiting[event.issue_id] = replace(waiting, retry=moved)

    def _update(self, issue_id: str, **changes: object) -> None:
        if run := self.running.get(issue_id):
            self.running[issue_id] = replace(run, **changes)

    def _charge(
        self, issue_id: str, day: str, *, sessions: int = 0, turns: int = 0, charge: ev.Charged | None = None
    ) -> None:
        usage = charge.usage if charge else None
        self.spent[issue_id] = self.spent_on(issue_id).plus(sessions=sessions, turns=turns, usage=usage)
        self.days[day] = self.spent_today(day).plus(sessions=sessions, turns=turns, usage=usage)
