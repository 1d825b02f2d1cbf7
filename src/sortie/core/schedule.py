"""The scheduling state: a fold over the event log, constant in size for each issue.

`apply` is the only thing that changes a Schedule, and it tells which rows it touched: the store writes just those
with the event, and loading reads them back. A replay applies the same events and reaches the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Literal, NamedTuple

from msgspec.structs import replace

from . import events as ev
from .model import Limits, like
from .policy import Policy, Spent, turn_refused
from .records import Answer, Claim, ParkedIssue, Pause, Waiting, WorkspaceRecord

Part = Literal[
    "issues", "running", "waiting", "parked", "answers", "pauses", "effects", "workspaces", "spent", "days"
]


class Touched(NamedTuple):
    """What an event changed: which part of the schedule, and under which key of it."""

    part: Part
    key: str


@dataclass
class Schedule:
    """`proofs` is when each agent last completed a turn, `faults` when a run of an issue last met a fault of its
    agent, `trials` the runs that began in spite of a known fault, to see whether it is gone, `starts` the number of
    claims, `inactive` the issues that were last seen in a state that is not active, the last one at the end. All of
    it lives in memory only: not knowing it costs one more try, or one more look.
    """

    policy: Policy = field(default_factory=Policy)
    issues: dict[str, ev.View] = field(default_factory=dict)
    skips: dict[str, tuple[str, str]] = field(default_factory=dict)
    running: dict[str, Claim] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    parked: dict[str, ParkedIssue] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    pauses: dict[str, Pause] = field(default_factory=dict)
    effects: dict[str, ev.EffectPlanned] = field(default_factory=dict)
    workspaces: dict[str, WorkspaceRecord] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)
    days: dict[str, Spent] = field(default_factory=dict)
    proofs: dict[str, float] = field(default_factory=dict, compare=False)
    faults: dict[str, float] = field(default_factory=dict, compare=False)
    trials: set[str] = field(default_factory=set, compare=False)
    starts: int = field(default=0, compare=False)
    inactive: dict[str, None] = field(default_factory=dict, compare=False)

    def spent_on(self, issue_id: str) -> Spent:
        return self.spent.get(issue_id, Spent())

    def spent_today(self, day: str) -> Spent:
        """Each day has an account of its own: a clock that is set back and forth gives none a second budget."""
        return self.days.get(day, Spent())

    def spent_in_all(self) -> Spent:
        return reduce(Spent.plus, self.days.values(), Spent())

    def agent_of(self, view: ev.View) -> str:
        return view.agent or self.policy.provider

    def provider_of(self, view: ev.View) -> str:
        """Who limits the agent of this issue: its kind, and its account where it names one."""
        return view.provider or self.agent_of(view)

    def is_asked_for(self, issue_id: str) -> bool:
        """Whether a person wants its next run, whatever the source shows of it."""
        waiting = self.waiting.get(issue_id)
        return waiting is not None and waiting.retry.by_hand

    def answers_for(self, issue_id: str) -> list[Answer]:
        """What people said and the agent of this issue has not completed a turn with, in their order."""
        return sorted(
            (one for one in self.answers.values() if one.issue_id == issue_id), key=lambda one: one.number
        )

    def answers_told(self, run_id: str, turn: int) -> list[Answer]:
        """Those among them that this turn of this run began with, which has not completed."""
        told = (one for one in self.answers.values() if (one.run_id, one.turn) == (run_id, turn))
        return sorted(told, key=lambda one: one.number)

    def limits_of(self, view: ev.View | None) -> Limits:
        """What may be spent on an issue: its own bounds where it names some, else those of the policy."""
        usual = self.policy.per_issue
        return view.limits.filled_from(usual) if view and view.limits else usual

    def turn_refused(self, issue_id: str, day: str) -> str:
        """The budget that allows no further turn of this issue on that day, or an empty string."""
        scopes = (
            ("this issue", self.spent_on(issue_id), self.limits_of(self.issues.get(issue_id))),
            ("the day", self.spent_today(day), self.policy.per_day),
            ("all issues together", self.spent_in_all(), self.policy.in_all),
        )
        for whose, spent, limits in scopes:
            if refused := turn_refused(spent, limits):
                return f"the budget of {whose} is used up: {refused}"
        return ""

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
        self._touched: list[Touched] = []
        self._fold(event)
        return self._touched

    def _put(self, part: Part, key: str, value: object) -> None:
        getattr(self, part)[key] = value
        self._touched.append(Touched(part, key))

    def _drop(self, part: Part, key: str) -> None:
        if getattr(self, part).pop(key, None) is not None:
            self._touched.append(Touched(part, key))

    def _fold(self, event: ev.AnyEvent) -> None:
        issue_id = event.issue_id
        match event:
            case ev.PolicySet():
                self.policy = event.policy
                is_active = self.policy.is_active
                self.inactive = {key: None for key, view in self.issues.items() if not is_active(view.state)}
            case ev.IssueSeen():
                self._put("issues", issue_id, event.view)
                self.inactive.pop(issue_id, None)
                if not self.policy.is_active(event.view.state):
                    self.inactive[issue_id] = None
            case ev.IssueLeft():
                self._drop("issues", issue_id)
                self.skips.pop(issue_id, None)
                self.inactive.pop(issue_id, None)
                # Were it to come back, they would answer a question that nobody asks any more.
                for answer in self.answers_for(issue_id):
                    self._drop("answers", answer.answer_id)
            case ev.Skipped():
                self.skips[issue_id] = (event.rule, event.detail)
                self._touched.append(Touched("issues", issue_id))  # what a skip is written with
            case ev.Claimed():
                self._claim(event)
            case ev.Settled():
                self._settle(event)
            case ev.RetryDropped():
                self._drop("waiting", issue_id)
            case ev.RetryDue() if waiting := self.waiting.get(issue_id):
                self._put("waiting", issue_id, replace(waiting, retry=replace(waiting.retry, due_at=event.due_at)))
            case ev.Parked():
                self._park(event)
            case ev.Unparked():
                self._drop("parked", issue_id)
                if event.reset_budget:
                    self._drop("spent", issue_id)
                if event.retry:
                    self._put("waiting", issue_id, like(Waiting, event))
            case ev.Requested():
                self._drop("parked", issue_id)
                self._put("waiting", issue_id, like(Waiting, event))
            case ev.Answered() if event.answer_id not in self.answers:
                number = 1 + max((one.number for one in self.answers.values()), default=0)
                self._put("answers", event.answer_id, like(Answer, event, number=number))
            case ev.ProviderPaused():
                self._pause(event)
            case ev.ProviderResumed():
                self._drop("pauses", event.provider)
            case ev.EffectPlanned() if event.effect_id not in self.effects:
                self._put("effects", event.effect_id, event)
            case ev.EffectDone():
                self._drop("effects", event.effect_id)
            case ev.WorkspaceGone():
                self._drop("workspaces", event.key)
            case ev.Charged():
                self._charge(issue_id, event.day, Spent(tokens=event.usage.total, usd=event.usage.cost_usd))
            case _:
                self._fold_into_run(event)

    def _fold_into_run(self, event: ev.AnyEvent) -> None:
        """What happens within a run; every other event is history, not scheduling state."""
        run = self.running.get(event.issue_id)
        match event:
            case ev.WorkspaceMade():
                self._enter(event, run)
            case ev.ProcessStarted(pid=pid, start_ticks=start_ticks, boot_id=boot_id):
                self._update(event, pid=pid, start_ticks=start_ticks, boot_id=boot_id)
            case ev.SessionStarted():
                self._update(event, session_id=event.session_id)
            case ev.TurnStarted():
                self._update(event, turn=event.turn, turn_done=False)
                self._charge(event.issue_id, event.day, Spent(turns=1))
                for answer in self.answers_for(event.issue_id):
                    self._put("answers", answer.answer_id, replace(answer, run_id=event.run_id, turn=event.turn))
                record = self.workspaces.get(run.workspace.rpartition("/")[2]) if run else None
                if record and not record.used and record.issue_id == event.issue_id:
                    self._put("workspaces", record.key, replace(record, used=True))
            case ev.TurnEnded():
                self.faults.pop(event.issue_id, None)
                for answer in self.answers_told(event.run_id, event.turn):
                    self._drop("answers", answer.answer_id)
                if run:
                    self.proofs[run.paid_by] = event.at
                    self._update(event, turn_done=run.turn_done or run.turn == event.turn)
            case ev.Stopping():
                self._update(event, stop=event.cause, stop_detail=event.detail)
            case ev.RunEnded() if run and not run.ended:
                self._update(event, ending=event)
            case _:
                pass

    def _claim(self, event: ev.Claimed) -> None:
        issue_id = event.issue_id
        assert issue_id not in self.running, "an issue has at most one live run"
        claim = like(Claim, event, claimed_at=event.at)
        self._put("running", issue_id, claim)
        self.starts += 1
        if self.fault_of(claim.paid_by):
            self.trials.add(event.run_id)
        self._drop("waiting", issue_id)
        self._drop("parked", issue_id)
        view, skip = self.issues.get(issue_id), self.skips.pop(issue_id, None)
        if view and (skip or view.fingerprint):
            # The fingerprint of an earlier parking must not free the issue from the next one.
            self._put("issues", issue_id, replace(view, fingerprint=""))
        self._charge(issue_id, event.day, Spent(sessions=1))

    def _enter(self, event: ev.WorkspaceMade, run: Claim | None) -> None:
        known = self.workspaces.get(event.key)
        record = like(
            WorkspaceRecord,
            event,
            created_at=known.created_at if known else event.at,
            host=run.host if run else "",
            used=known is not None and known.used and known.inode == event.inode,
        )
        self._put("workspaces", event.key, record)
        self._update(event, workspace=event.path, inode=event.inode, signal=event.signal)

    def _settle(self, event: ev.Settled) -> None:
        issue_id = event.issue_id
        self._drop("running", issue_id)
        self.trials.discard(event.run_id)
        if event.refund:
            self._charge(issue_id, event.refund, Spent(sessions=-1, turns=-event.refund_turns))
        if event.retry:
            self._put("waiting", issue_id, like(Waiting, event))
            if event.retry.kind == "held":
                self.faults[issue_id] = event.at
        if event.park:
            self._park(event)

    def _park(self, event: ev.Settled | ev.Parked) -> None:
        self._put("parked", event.issue_id, like(ParkedIssue, event, since=event.at))
        self._drop("waiting", event.issue_id)

    def _update(self, event: ev.AnyEvent, **changes: object) -> None:
        """Of the run that the event is about; that of another one changes nothing."""
        run = self.running.get(event.issue_id)
        if run and run.run_id == event.run_id:
            seen = max(run.seen, getattr(event, "number", 0))
            self._put("running", event.issue_id, replace(run, seen=seen, **changes))

    def _pause(self, event: ev.ProviderPaused) -> None:
        """A fault that a further run meets, too, is the one that is there already."""
        pause, before = like(Pause, event), self.fault_of(event.provider)
        if pause.is_fault:
            pause = replace(pause, since=before.since if before else event.at)
        self._put("pauses", event.provider, pause)

    def _charge(self, issue_id: str, day: str, more: Spent) -> None:
        if issue_id:
            self._put("spent", issue_id, self.spent_on(issue_id).plus(more))
        if day:
            self._put("days", day, self.spent_today(day).plus(more))
