"""An engine with nothing outside: it posts the events the real one posts, in the same order, at its own time.

Ticks follow engine/tick.py, ends of runs engine/ending.py, restarts engine/recovery.py. Every event goes through
the real tables as well, and a restart goes on with what those remember.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sortie.core import actions as act
from sortie.core import events as ev
from sortie.core.budget import day_of, turn_refused
from sortie.core.conclude import Outcome, pause, settle, stopped, wants_handoff
from sortie.core.decide import Tick
from sortie.core.fingerprint import fingerprint
from sortie.core.liveness import Pulse, overdue
from sortie.core.model import Issue, Usage
from sortie.core.operator import obey
from sortie.core.policy import Policy
from sortie.core.schedule import Running, Schedule
from sortie.engine.ending import outcome_of
from sortie.engine.gather import view_of
from sortie.engine.memory import world_of
from sortie.store.load import load
from sortie.store.migrate import migrate
from sortie.store.projection import record

from .deeds import event_of
from .laws import check_decision, check_event, check_nothing_lost, check_same
from .people import People

START = 1774914000.0  # 2026-03-30T23:40:00Z: midnight is near


@dataclass
class Live:
    """What the task of a run knows; `policy` is the one it began with."""

    claim: Running
    policy: Policy
    issue: Issue
    pulse: Pulse
    session_id: str
    announced: bool = False
    turns: int = 0


class Simulation:
    def __init__(self, policy: Policy, in_progress: str = "") -> None:
        self.people = People()
        self.policy = policy
        self.in_progress = in_progress
        self.now = START
        self.schedule = Schedule(policy)
        self.log: list[ev.AnyEvent] = []
        self.live: dict[str, Live] = {}
        self._runs = 0
        self._commands = 0
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        migrate(self._database, Path("memory"))
        self._open()

    def close(self) -> None:
        self._database.close()

    def open_issues(self, count: int) -> None:
        for number in range(count):
            self.people.open(number % 3 or None, "2026-01-01", "Todo")
        self.tick()

    def post(self, *events: ev.AnyEvent) -> None:
        for event in events:
            check_event(self.schedule, event, self.people.snapshot(), self.now)
            self.schedule.apply(event)
            self.log.append(event)
            record(self._database, event)

    # -- ticks ------------------------------------------------------------------------------------------------

    def tick(
        self, *, answers: bool = True, ending: dict[str, Outcome] | None = None, hands_over: bool = True
    ) -> None:
        """One tick. The runs in `ending` end while the tracker is being read."""
        seen = self.people.snapshot()
        missing = self._missing(seen)
        touched = list(ending or {})
        for issue_id, outcome in (ending or {}).items():
            self.end(issue_id, outcome, hands_over=hands_over)
        if answers:
            self.post(*self._changed(seen, touched), *self._left(seen, missing, touched))
        tick = Tick(
            now=self.now,
            candidates_known=answers,
            overdue=overdue([run.pulse for run in self.live.values()], self.schedule.policy, self.now),
            unsure=tuple(touched),
        )
        actions = check_decision(self.schedule, tick)
        if actions:
            self.post(*self._events(actions, tick))
        for action in actions:
            if isinstance(action, act.Start):
                self._begin(seen[action.issue_id], action.session_id)
        if answers:
            check_nothing_lost(self.schedule, self.people, self.now, touched)

    def _missing(self, seen: dict[str, Issue]) -> set[str]:
        held = {*self.schedule.running, *self.schedule.waiting, *self.schedule.parked}
        return {key for key in held if key in self.schedule.issues and not self._shows(seen, key)}

    def _shows(self, seen: dict[str, Issue], issue_id: str) -> bool:
        return issue_id in seen and self.schedule.policy.is_active(seen[issue_id].state)

    def _changed(self, seen: dict[str, Issue], touched: list[str]) -> list[ev.AnyEvent]:
        found: list[ev.AnyEvent] = []
        for issue_id, issue in seen.items():
            view = view_of(issue, self.schedule.policy, parked=issue_id in self.schedule.parked)
            changed = self.schedule.issues.get(issue_id) != view
            if changed and issue_id not in touched and self._shows(seen, issue_id):
                found.append(ev.IssueSeen(at=self.now, issue_id=issue_id, view=view))
        return found

    def _left(self, seen: dict[str, Issue], missing: set[str], touched: list[str]) -> list[ev.AnyEvent]:
        found: list[ev.AnyEvent] = []
        for issue_id, view in self.schedule.issues.items():
            if self._shows(seen, issue_id) or issue_id in touched:
                continue
            if issue_id not in missing or issue_id not in seen:
                found.append(ev.IssueLeft(at=self.now, issue_id=issue_id, identifier=view.identifier))
            elif seen[issue_id].state != view.state:
                moved = replace(view, state=seen[issue_id].state)
                found.append(ev.IssueSeen(at=self.now, issue_id=issue_id, view=moved))
        return found

    def _events(self, actions: list[act.Action], tick: Tick) -> list[ev.AnyEvent]:
        ticked = ev.Ticked(
            at=tick.now,
            candidates_known=tick.candidates_known,
            overdue=tick.overdue,
            unsure=tick.unsure,
            actions=tuple(actions),
        )
        events: list[ev.AnyEvent] = [ticked]
        for action in actions:
            self._runs += 1
            events.append(event_of(action, tick.now, run_id=f"r{self._runs}"))
        return events

    # -- runs -------------------------------------------------------------------------------------------------

    def _begin(self, issue: Issue, session_id: str) -> None:
        claim = self.schedule.running[issue.id]
        assert issue.id not in self.live, "two live runs of one issue"
        pulse = Pulse(issue_id=issue.id, run_id=claim.run_id, last_sign=self.now)
        self.live[issue.id] = Live(claim, self.policy, issue, pulse, session_id or f"s-{claim.run_id}")

    def _refresh(self, run: Live) -> None:
        run.issue = self.people.snapshot().get(run.issue.id, run.issue)

    def turn(self, issue_id: str) -> None:
        """The next step of a run: begin a turn, or complete the one it is in."""
        run = self.live[issue_id]
        common: dict[str, Any] = {"at": self.now, "issue_id": issue_id, "run_id": run.claim.run_id}
        if not run.announced:
            self._announce(run)
        if not run.policy.is_active(run.issue.state):
            self.end(issue_id, Outcome(status="cancelled", turns=run.turns, stop="inactive", error="moved away"))
        elif run.pulse.turn_started is not None:
            run.pulse.turn_started = None
            run.turns += 1
            if self.schedule.fault_of(run.claim.agent) and run.claim.run_id in self.schedule.trials:
                self.post(ev.ProviderResumed(**common, provider=run.claim.agent, why="a run of it works"))
            self.post(ev.TurnEnded(**common, turn=run.turns))
            self._refresh(run)
        elif refused := self._turn_refused(issue_id):
            self.end(issue_id, Outcome(status="cancelled", turns=run.turns, stop="budget", error=refused))
        else:
            self.post(ev.TurnStarted(**common, turn=run.turns + 1, day=day_of(self.now)))
            run.pulse.turn_started = run.pulse.last_sign = self.now

    def _announce(self, run: Live) -> None:
        run.announced = True
        self._refresh(run)
        if self.in_progress and run.policy.is_active(run.issue.state) and run.issue.id in self.people.issues:
            self.people.move(run.issue.id, self.in_progress)
            self._refresh(run)

    def _turn_refused(self, issue_id: str) -> str:
        schedule = self.schedule
        return turn_refused(schedule.spent_on(issue_id), schedule.policy.per_issue) or turn_refused(
            schedule.spent_today(day_of(self.now)), schedule.policy.per_day
        )

    def use(self, issue_id: str, usage: Usage) -> None:
        run = self.live[issue_id]
        run.pulse.last_sign = self.now
        self.post(
            ev.Charged(at=self.now, issue_id=issue_id, run_id=run.claim.run_id, usage=usage, day=day_of(self.now))
        )

    def end(self, issue_id: str, outcome: Outcome, *, hands_over: bool = True, crash: bool = False) -> None:
        """The run ends. `crash`: the orchestrator dies between the verdict and the settlement."""
        run = self.live.pop(issue_id)
        outcome = replace(outcome, turns=run.turns, session_id=run.session_id)
        claim = self.schedule.running[issue_id]
        if claim.stop and outcome.status != "succeeded":
            outcome = stopped(outcome, claim.stop, claim.stop_detail)
        self._finish(claim, run.policy, run.issue, outcome, hands_over=hands_over, crash=crash)

    def _finish(
        self,
        claim: Running,
        policy: Policy,
        issue: Issue,
        outcome: Outcome,
        *,
        hands_over: bool,
        crash: bool = False,
    ) -> None:
        planned = wants_handoff(outcome, policy, issue.state)
        self.post(
            ev.RunEnded(
                at=self.now,
                issue_id=claim.issue_id,
                run_id=claim.run_id,
                status=outcome.status,
                turns=outcome.turns,
                soft_stop=outcome.soft_stop,
                reason=outcome.reason,
                error=outcome.error,
                error_kind=outcome.error_kind,
                retryable=outcome.retryable,
                limited_until=outcome.limited_until,
                stop=outcome.stop,
                session_id=outcome.session_id,
                handoff_planned=planned,
                fingerprint=fingerprint(issue),
            )
        )
        if not crash:
            self._settle(claim, policy, issue, outcome, planned=planned, hands_over=hands_over)

    def _settle(
        self,
        claim: Running,
        policy: Policy,
        issue: Issue,
        outcome: Outcome,
        *,
        planned: bool,
        hands_over: bool = True,
        seen: str = "",
    ) -> None:
        """`seen` is the fingerprint of the verdict, where a crash came between."""
        handed = planned and hands_over and claim.issue_id in self.people.issues
        if handed:
            if policy.is_active(self.people.issues[claim.issue_id].state):
                self.people.move(claim.issue_id, policy.handoff_state)
            issue = replace(issue, state=policy.handoff_state)
        fault = self.schedule.fault_of(claim.agent)
        turn = self.schedule.running[claim.issue_id].turn
        result = settle(
            outcome,
            claim,
            policy,
            state=issue.state,
            handoff=handed if planned else None,
            fingerprint="",
            now=self.now,
            faults=fault.tries if fault else 0,
            works_for_others=self.schedule.works_for_others(claim),
            used=self.schedule.spent_on(claim.issue_id).tokens > 0,
        )
        if result.park:
            if not seen:
                issue = self.people.snapshot().get(claim.issue_id, issue)
                seen = fingerprint(issue)
            result = replace(result, park=replace(result.park, fingerprint=seen))
        view = self.schedule.issues.get(issue.id)
        if view and view.state != issue.state:
            self.post(ev.IssueSeen(at=self.now, issue_id=issue.id, view=replace(view, state=issue.state)))
        self.post(*pause(outcome, result, claim, self.schedule, self.now))
        self.post(
            ev.Settled(
                at=self.now,
                issue_id=claim.issue_id,
                run_id=claim.run_id,
                identifier=claim.identifier,
                why=result.why,
                retry=result.retry,
                park=result.park,
                refund=day_of(claim.claimed_at) if result.refund else "",
                refund_turns=max(turn - outcome.turns, 0) if result.refund_turns else 0,
            )
        )

    # -- the operator, the workflow, restarts -----------------------------------------------------------------

    def command(self, verb: str, issue: str) -> None:
        self._commands += 1
        answer = obey(self.schedule, verb, issue, self.now)
        done = ev.Commanded(
            at=self.now,
            issue_id=answer.issue_id,
            command_id=self._commands,
            verb=verb,
            outcome=answer.outcome,
            ok=answer.ok,
        )
        self.post(done, *answer.events)

    def set_policy(self, policy: Policy) -> None:
        self.policy = policy
        self.post(ev.PolicySet(at=self.now, policy=policy))

    def drain(self) -> None:
        for run in list(self.schedule.running.values()):
            if not run.stop and not run.ended:
                self.post(
                    ev.Stopping(
                        at=self.now, issue_id=run.issue_id, run_id=run.run_id, cause="shutdown", detail="asked"
                    )
                )
        for issue_id in list(self.live):
            self.end(issue_id, Outcome(status="cancelled", turns=0))
        self.restart()

    def restart(self, signals: dict[str, str] | None = None) -> None:
        """Start again from the tables; `signals` is what agents wrote whose last turn had completed."""
        self.live.clear()
        loaded = load(self._database, day_of(self.now))
        remembered = world_of(loaded, self.policy)
        check_same(self.schedule, remembered, day_of(self.now))
        self.schedule = remembered
        self._open()
        for row in loaded.claims:
            claim = self.schedule.running[row.issue_id]
            view = self.schedule.issues.get(row.issue_id)
            title, state = (view.title, view.state) if view else ("", "")
            known = Issue(id=row.issue_id, identifier=row.identifier, title=title, state=state)
            issue = self.people.snapshot().get(row.issue_id, known)
            if row.ending:
                outcome, planned, seen = outcome_of(row.ending), row.ending.handoff_planned, row.ending.fingerprint
                self._settle(claim, self.policy, issue, outcome, planned=planned, seen=seen)
                continue
            reached = Outcome(
                status="cancelled",
                turns=row.turn if row.turn_done else max(row.turn - 1, 0),
                session_id=row.session_id,
            )
            signal = (signals or {}).get(row.issue_id, "") if row.turn_done else ""
            if row.stop_cause and row.stop_cause != "shutdown":
                outcome = stopped(reached, row.stop_cause, row.stop_detail)
            elif signal:
                outcome = replace(reached, status="succeeded", soft_stop=signal)
            else:
                outcome = stopped(reached, "crash", "died")
            self._finish(claim, self.policy, issue, outcome, hands_over=True)

    def _open(self) -> None:
        self.post(
            ev.Opened(at=self.now, pid=1, version="0", workflow="WORKFLOW.md"),
            ev.PolicySet(at=self.now, policy=self.policy),
        )
