"""The scheduling state: a fold over the event log, constant in size for each issue.

`apply` is the only thing that changes a Schedule, and it tells which rows it touched: the store writes just those
with the event, and loading reads them back. A replay applies the same events and reaches the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from msgspec.structs import replace

from . import events as ev
from .budget import Spent
from .model import Usage, like
from .policy import Policy
from .records import Claim, ParkedIssue, Pause, Waiting, WorkspaceRecord

Part = Literal["issues", "running", "waiting", "parked", "pauses", "effects", "workspaces", "spent", "days"]


class Touched(NamedTuple):
    """What an event changed: which part of the schedule, and under which key of it."""

    part: Part
    key: str


@dataclass
class Schedule:
    """`proofs` is when each agent last completed a turn, `faults` when a run of an issue last met a fault of its
    agent, `trials` the runs that began in spite of a known fault, to see whether it is gone, `starts` the number of
    claims, `inactive` the issues that were last seen in a state that is not active. All of it lives in memory only:
    not knowing it costs one more try, or one more look.
    """

    policy: Policy = field(default_factory=Policy)
    issues: dict[str, ev.View] = field(default_factory=dict)
    skips: dict[str, tuple[str, str]] = field(default_factory=dict)
    running: dict[str, Claim] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    parked: dict[str, ParkedIssue] = field(default_factory=dict)
    pauses: dict[str, Pause] = field(default_factory=dict)
    effects: dict[str, ev.EffectPlanned] = field(default_factory=dict)
    workspaces: dict[str, WorkspaceRecord] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)
    days: dict[str, Spent] = field(default_factory=dict)
    proofs: dict[str, float] = field(default_factory=dict, compare=False)
    faults: dict[str, float] = field(default_factory=dict, compare=False)
    trials: set[str] = field(default_factory=set, compare=False)
    starts: int = field(default=0, compare=False)
    inactive: set[str] = field(default_factory=set, compare=False)

    def spent_on(self, issue_id: str) -> Spent:
        return self.spent.get(issue_id, Spent())

    def spent_today(self, day: str) -> Spent:
        """Each day has an account of its own: a clock that is set back and forth gives none a second budget."""
        return self.days.get(day, Spent())

    def agent_of(self, view: ev.View) -> str:
        return view.agent or self.policy.provider

    def provider_of(self, view: ev.View) -> str:
        """Who limits the agent of this issue: its kind, and its account where it names one."""
        return view.provider or self.agent_of(view)

    def fault_of(self, provider: str) -> Pause | None:
        """What keeps this agent from working at all, as far as is known."""
        pause = self.pauses.get(provider)
        return pause if pause and pause.is_fault else None

    def works_for_others(self, run: Claim) -> bool:
        """Whether the agent of this run has completed a turn since it last failed for this very issue."""
        failed_at = self.faults.get(run.issue_id)
        return failed_at is not None and self.proofs.get(run.paid_by, failed_at) > failed_at

    def reached(self, issue_id: str) -> tuple[int, str]:
        """The last attempt of an issue that waits or is parked, and the conversation with which it goes on."""
        if waiting := self.waiting.get(issue_id):
            return waiting.retry.attempt - 1, waiting.retry.session_id
        if parked := self.parked.get(issue_id):
            return parked.park.attempt, parked.park.session_id
        return 0, ""

    def apply(self, event: ev.AnyEvent) -> list[Touched]:
        """Make the event part of the state; the answer is every row that it changed."""
        issue_id = event.issue_id
        match event:
            case ev.PolicySet():
                self.policy = event.policy
                is_active = self.policy.is_active
                self.inactive = {key for key, view in self.issues.items() if not is_active(view.state)}
                return []
            case ev.IssueSeen():
                self.issues[issue_id] = event.view
                (self.inactive.discard if self.policy.is_active(event.view.state) else self.inactive.add)(issue_id)
                return [Touched("issues", issue_id)]
            case ev.IssueLeft():
                self.skips.pop(issue_id, None)
                self.inactive.discard(issue_id)
                return self._drop("issues", issue_id)
            case ev.Skipped():
                self.skips[issue_id] = (event.rule, event.detail)
                return [Touched("issues", issue_id)]
            case ev.Claimed():
                return self._claim(event)
            case ev.Settled():
                return self._settle(event)
            case ev.RetryDropped():
                return self._drop("waiting", issue_id)
            case ev.RetryDue() if waiting := self.waiting.get(issue_id):
                self.waiting[issue_id] = replace(waiting, retry=replace(waiting.retry, due_at=event.due_at))
                return [Touched("waiting", issue_id)]
            case ev.Parked():
                return self._park(event)
            case ev.Unparked():
                touched = self._drop("parked", issue_id)
                touched += self._drop("spent", issue_id) if event.reset_budget else []
                return touched + (self._wait(event) if event.retry else [])
            case ev.Requested():
                return self._drop("parked", issue_id) + self._wait(event)
            case ev.ProviderPaused():
                self.pauses[event.provider] = like(Pause, event)
                return [Touched("pauses", event.provider)]
            case ev.ProviderResumed():
                return self._drop("pauses", event.provider)
            case ev.EffectPlanned() if event.effect_id not in self.effects:
                self.effects[event.effect_id] = event
                return [Touched("effects", event.effect_id)]
            case ev.EffectDone():
                return self._drop("effects", event.effect_id)
            case ev.WorkspaceGone():
                return self._drop("workspaces", event.key)
            case _:
                return self._apply_to_run(event)

    def _apply_to_run(self, event: ev.AnyEvent) -> list[Touched]:
        """What happens within a run; every other event is history, not scheduling state."""
        issue_id = event.issue_id
        match event:
            case ev.WorkspaceMade():
                return self._enter(event)
            case ev.ProcessStarted(pid=pid, start_ticks=start_ticks, boot_id=boot_id):
                return self._update(event, pid=pid, start_ticks=start_ticks, boot_id=boot_id)
            case ev.SessionStarted():
                return self._update(event, session_id=event.session_id)
            case ev.TurnStarted():
                touched = self._update(event, turn=event.turn, turn_done=False)
                return touched + self._use_workspace(issue_id) + self._charge(issue_id, event.day, turns=1)
            case ev.TurnEnded():
                self.faults.pop(issue_id, None)
                if run := self.running.get(issue_id):
                    self.proofs[run.paid_by] = event.at
                    return self._update(event, turn_done=run.turn_done or run.turn == event.turn)
                return []
            case ev.Charged():
                return self._charge(issue_id, event.day, usage=event.usage)
            case ev.Stopping():
                return self._update(event, stop=event.cause, stop_detail=event.detail)
            case ev.RunEnded():
                run = self.running.get(issue_id)
                return self._update(event, ending=event) if run and not run.ended else []
            case _:
                return []

    def _claim(self, event: ev.Claimed) -> list[Touched]:
        issue_id = event.issue_id
        assert issue_id not in self.running, "an issue has at most one live run"
        claim = self.running[issue_id] = like(Claim, event, claimed_at=event.at)
        self.starts += 1
        if self.fault_of(claim.paid_by):
            self.trials.add(event.run_id)
        touched = [Touched("running", issue_id), *self._drop("waiting", issue_id), *self._drop("parked", issue_id)]
        view = self.issues.get(issue_id)
        if view and view.fingerprint:  # that of an earlier parking must not free the issue from the next one
            self.issues[issue_id] = replace(view, fingerprint="")
        if self.skips.pop(issue_id, None) or (view and view.fingerprint):
            touched.append(Touched("issues", issue_id))
        return touched + self._charge(issue_id, event.day, sessions=1)

    def _enter(self, event: ev.WorkspaceMade) -> list[Touched]:
        known, run = self.workspaces.get(event.key), self.running.get(event.issue_id)
        self.workspaces[event.key] = like(
            WorkspaceRecord,
            event,
            created_at=known.created_at if known else event.at,
            host=run.host if run else "",
            used=known is not None and known.used and known.inode == event.inode,
        )
        return [Touched("workspaces", event.key), *self._update(event, workspace=event.path, inode=event.inode)]

    def _use_workspace(self, issue_id: str) -> list[Touched]:
        run = self.running.get(issue_id)
        record = self.workspaces.get(run.workspace.rpartition("/")[2]) if run else None
        if record is None or record.used or record.issue_id != issue_id:
            return []
        self.workspaces[record.key] = replace(record, used=True)
        return [Touched("workspaces", record.key)]

    def _settle(self, event: ev.Settled) -> list[Touched]:
        issue_id = event.issue_id
        self.trials.discard(event.run_id)
        touched = self._drop("running", issue_id)
        if event.refund:
            touched += self._charge(issue_id, event.refund, sessions=-1, turns=-event.refund_turns)
        if event.retry:
            touched += self._wait(event)
            if event.retry.kind == "held":
                self.faults[issue_id] = event.at
        if event.park:
            touched += self._park(event)
        return touched

    def _wait(self, event: ev.Settled | ev.Unparked | ev.Requested) -> list[Touched]:
        self.waiting[event.issue_id] = like(Waiting, event)
        return [Touched("waiting", event.issue_id)]

    def _park(self, event: ev.Settled | ev.Parked) -> list[Touched]:
        self.parked[event.issue_id] = like(ParkedIssue, event, since=event.at)
        return [Touched("parked", event.issue_id), *self._drop("waiting", event.issue_id)]

    def _drop(self, part: Part, key: str) -> list[Touched]:
        found = getattr(self, part).pop(key, None)
        return [] if found is None else [Touched(part, key)]

    def _update(self, event: ev.AnyEvent, **changes: object) -> list[Touched]:
        """Of the run that the event is about; that of another one changes nothing."""
        run = self.running.get(event.issue_id)
        if run is None or run.run_id != event.run_id:
            return []
        number = getattr(event, "number", 0)
        self.running[event.issue_id] = replace(run, seen=max(run.seen, number), **changes)
        return [Touched("running", event.issue_id)]

    def _charge(
        self, issue_id: str, day: str, *, sessions: int = 0, turns: int = 0, usage: Usage | None = None
    ) -> list[Touched]:
        touched = [row for row in (Touched("spent", issue_id), Touched("days", day)) if row.key]
        for part, key in touched:
            accounts: dict[str, Spent] = getattr(self, part)
            accounts[key] = accounts.get(key, Spent()).plus(sessions=sessions, turns=turns, usage=usage)
        return touched
