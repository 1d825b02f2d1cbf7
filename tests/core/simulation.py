"""An engine with nothing outside: it drives the functions of the core at its own time, as the real one does.

Every event goes through the real tables as well, and a restart goes on with what those remember.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.conclude import Outcome, conclude, settle, with_our_stop
from sortie.core.decide import Tick
from sortie.core.hand_off import judge_issue, wants_handoff
from sortie.core.model import Issue, Usage, like
from sortie.core.observe import Look, fingerprint, held_elsewhere, outdates
from sortie.core.operator import Reply, answer, obey
from sortie.core.policy import Liveness, Policy, day_of, overdue, turn_refused
from sortie.core.ready_queue import ReadyQueue
from sortie.core.records import Claim
from sortie.core.recover import outcome_after_crash, recover
from sortie.core.schedule import Schedule
from sortie.store.connect import migrate
from sortie.store.load import load
from sortie.store.tables import apply, write

from .laws import check_begin, check_decision, check_event, check_nothing_lost, check_observed, check_same
from .people import People

START = 1774914000.0  # 2026-03-30T23:40:00Z: midnight is near


@dataclass
class Live:
    """What the task of a run knows; `policy` is the one it began with."""

    claim: Claim
    policy: Policy
    issue: Issue
    heard: Liveness
    session_id: str
    announced: bool = False
    turns: int = 0
    told: tuple[str, ...] = ()


class Simulation:
    """`incremental`: the tracker tells which issues changed since the last look. `unheard` is what people answered
    and no completed turn was told of, by issue."""

    def __init__(self, policy: Policy, in_progress: str = "", *, incremental: bool = False) -> None:
        self.people = People()
        self.policy = policy
        self.in_progress = in_progress
        self.now = START
        self.schedule = Schedule(policy)
        self.queue = ReadyQueue()
        self.log: list[ev.AnyEvent] = []
        self.live: dict[str, Live] = {}
        self.incremental = incremental
        self._shown: dict[str, Issue] | None = None
        self._outdated: set[str] = set()
        self._commands = 0
        self.unheard: dict[str, list[str]] = {}
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
            known = self.schedule.issues.get(event.issue_id)
            change = apply(self.schedule, event)
            self.queue.touch(self.schedule, event, [touched for touched, _ in change.rows])
            self.log.append(event)
            if outdates(event):
                self._outdated.add(event.issue_id)
            if isinstance(event, ev.IssueLeft):
                self._forget(event.issue_id, known.state if known else "")
            write(self._database, [change])

    def _forget(self, issue_id: str, seen: str) -> None:
        """An issue that waits for what people answered leaves only when it is gone from the tracker, or over, or
        was over when it was seen last: from then on nobody asks where it went."""
        state = self.people.issues[issue_id].state if issue_id in self.people.issues else ""
        can_go_on = state and not self.policy.is_terminal(state) and not self.policy.is_terminal(seen)
        owed = self.unheard.pop(issue_id, None) and can_go_on
        assert not owed, "an answer is forgotten whose issue can go on"

    # -- ticks ------------------------------------------------------------------------------------------------

    def tick(
        self, *, answers: bool = True, ending: dict[str, Outcome] | None = None, hands_over: bool = True
    ) -> None:
        """One look and one decision. The runs in `ending` end while the tracker is being read."""
        look = self._look()
        touched = list(ending or {})
        outdated = frozenset(self._outdated)
        for issue_id, outcome in (ending or {}).items():
            self.end(issue_id, outcome, hands_over=hands_over)
        if answers:
            if look.changed is not None:
                look = replace(look, changed=look.changed | outdated)
            self.post(*check_observed(self.schedule, look, self.now, touched))
            self._shown, self._outdated = dict(look.issues), set(touched)
        while self.decide(answers=answers):
            pass  # the end of a run is the reason for the next decision
        if answers:
            check_nothing_lost(self.schedule, self.people, self.now, touched)

    def decide(self, *, answers: bool = True) -> bool:
        """Whether a run that it started has ended already."""
        heard = [run.heard for run in self.live.values()]
        tick = Tick(
            now=self.now,
            candidates_known=answers,
            overdue=overdue(heard, self.schedule.policy, self.now),
        )
        events = check_decision(self.schedule, tick, self.queue)
        if events:
            self.post(tick.recorded(len(events)), *events)
        started = [event for event in events if isinstance(event, ev.Claimed)]
        for event in started:
            self._begin(event)
        return any(event.issue_id not in self.live for event in started)

    def _look(self) -> Look:
        seen = self.people.snapshot()
        issues = {key: issue for key, issue in seen.items() if self.schedule.policy.is_active(issue.state)}
        elsewhere = held_elsewhere(self.schedule, issues)
        states = {key: seen[key].state for key in elsewhere if key in seen}
        return Look(issues=issues, states=states, changed=self._changed(issues))

    def _changed(self, issues: dict[str, Issue]) -> frozenset[str] | None:
        """Every issue that differs from the last look that was taken in, also by being gone."""
        if not self.incremental or self._shown is None:
            return None
        shown = self._shown
        return frozenset(key for key in (*shown, *issues) if shown.get(key) != issues.get(key))

    # -- runs -------------------------------------------------------------------------------------------------

    def _begin(self, claimed: ev.Claimed) -> None:
        claim = self.schedule.running[claimed.issue_id]
        assert claim.issue_id not in self.live, "two live runs of one issue"
        heard = Liveness(issue_id=claim.issue_id, run_id=claim.run_id, last_heard=self.now)
        session_id = claim.session_id or f"s-{claim.run_id}"
        issue = self._issue(claim)
        self.live[claim.issue_id] = Live(claim, self.policy, issue, heard, session_id)
        if claim.issue_id not in self.people.issues:
            self.end(claim.issue_id, Outcome(status="cancelled", turns=0, stop="gone", error="gone"))
        elif not claim.by_hand and not self.policy.is_active(issue.state):
            self.end(claim.issue_id, Outcome(status="cancelled", turns=0, stop="inactive", error="moved away"))
        elif not claim.by_hand:
            check_begin(self.schedule, issue)

    def _issue(self, claim: Claim) -> Issue:
        """As the tracker shows it, or as it is remembered."""
        view = self.schedule.issues.get(claim.issue_id)
        title, state = (view.title, view.state) if view else ("", "")
        known = Issue(id=claim.issue_id, identifier=claim.identifier, title=title, state=state)
        return self.people.snapshot().get(claim.issue_id, known)

    def _refresh(self, run: Live) -> None:
        run.issue = self.people.snapshot().get(run.issue.id, run.issue)

    def turn(self, issue_id: str) -> None:
        """The next step of a run: begin a turn, or complete the one it is in."""
        run = self.live[issue_id]
        common: dict[str, Any] = {"at": self.now, "issue_id": issue_id, "run_id": run.claim.run_id}
        if not run.announced:
            self._announce(run)
        if not run.claim.by_hand and not run.policy.is_active(run.issue.state):
            self.end(issue_id, Outcome(status="cancelled", turns=run.turns, stop="inactive", error="moved away"))
        elif run.heard.turn_started is not None:
            run.heard.turn_started = None
            run.turns += 1
            if self.schedule.fault_of(run.claim.agent) and run.claim.run_id in self.schedule.trials:
                self.post(ev.ProviderResumed(**common, provider=run.claim.agent, why="a run of it works"))
            self.post(ev.TurnEnded(**common, turn=run.turns))
            self.unheard[issue_id] = [one for one in self.unheard.get(issue_id, ()) if one not in run.told]
            self._refresh(run)
        elif refused := self._turn_refused(issue_id):
            self.end(issue_id, Outcome(status="cancelled", turns=run.turns, stop="budget", error=refused))
        else:
            self.post(ev.TurnStarted(**common, turn=run.turns + 1, day=day_of(self.now)))
            run.heard.turn_started = run.heard.last_heard = self.now
            run.told = tuple(self.unheard.get(issue_id, ()))
            told = self.schedule.answers_told(run.claim.run_id, run.turns + 1)
            assert [one.text for one in told] == [*run.told], "a turn is told all that no completed one was told"

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
        run.heard.last_heard = self.now
        self.post(
            ev.Charged(at=self.now, issue_id=issue_id, run_id=run.claim.run_id, usage=usage, day=day_of(self.now))
        )

    def end(self, issue_id: str, outcome: Outcome, *, hands_over: bool = True, crash: bool = False) -> None:
        """The run ends. `crash`: the orchestrator dies between the verdict and the settlement."""
        run = self.live.pop(issue_id)
        outcome = replace(outcome, turns=run.turns, session_id=run.session_id)
        outcome = with_our_stop(outcome, self.schedule.running[issue_id])
        self._finish(run.policy, run.issue, outcome, hands_over=hands_over, crash=crash)

    def _finish(
        self, policy: Policy, issue: Issue, outcome: Outcome, *, hands_over: bool = True, crash: bool = False
    ) -> None:
        claim = self.schedule.running[issue.id]
        planned = wants_handoff(outcome, policy, issue.state)
        run: dict[str, Any] = {"at": self.now, "issue_id": claim.issue_id, "run_id": claim.run_id}
        self.post(like(ev.RunEnded, outcome, **run, handoff_planned=planned, fingerprint=fingerprint(issue)))
        if not crash:
            self._settle(claim, policy, issue, outcome, planned=planned, hands_over=hands_over)

    def _settle(
        self,
        claim: Claim,
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
        judged = judge_issue(outcome, policy, issue.state, handed if planned else None)
        used = self.schedule.spent_on(claim.issue_id).tokens > 0
        if not seen and settle(self.schedule, claim, outcome, judged, used=used, now=self.now).park:
            issue = self.people.snapshot().get(claim.issue_id, issue)
            seen = fingerprint(issue)
        settled = conclude(
            self.schedule,
            claim,
            outcome,
            judged,
            used=used,
            now=self.now,
            state=issue.state,
            fingerprint=seen,
        )
        self.post(*settled)

    # -- the operator, the workflow, restarts -----------------------------------------------------------------

    def command(self, verb: str, issue: str) -> None:
        self._commands += 1
        self._done(verb, obey(self.schedule, verb, issue, self.now))

    def answer(self, issue: str) -> None:
        self._commands += 1
        text = f"answer {self._commands}"
        reply = answer(self.schedule, issue, text, self.now, answer_id=str(self._commands), comment=text)
        if reply.ok:
            self.unheard.setdefault(reply.issue_id, []).append(text)
        self._done("answer", reply)
        assert not (reply.ok and reply.issue_id in self.schedule.parked), "answered and not freed"

    def _done(self, verb: str, reply: Reply) -> None:
        done = ev.Commanded(
            at=self.now,
            issue_id=reply.issue_id,
            command_id=self._commands,
            verb=verb,
            outcome=reply.outcome,
            ok=reply.ok,
        )
        self.post(done, *reply.events)

    def set_policy(self, policy: Policy) -> None:
        self.policy = policy
        self._shown = None  # other rules make other views
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
        self._shown = None
        self.now += 0.001  # a start takes time
        remembered = load(self._database).schedule
        remembered.policy = self.policy
        check_same(self.schedule, remembered)
        self.schedule = remembered
        self.queue = ReadyQueue.of(remembered)
        self._open()
        for claim in list(self.schedule.running.values()):
            issue, ended = self._issue(claim), claim.ending
            if ended:
                outcome, planned, seen = like(Outcome, ended), ended.handoff_planned, ended.fingerprint
                self._settle(claim, self.policy, issue, outcome, planned=planned, seen=seen)
            else:
                outcome = outcome_after_crash(claim, (signals or {}).get(claim.issue_id, ""), "")
                self._finish(self.policy, issue, outcome)
        self.post(*recover(self.schedule, self.now))

    def _open(self) -> None:
        self.post(
            ev.Opened(at=self.now, pid=1, version="0", workflow="WORKFLOW.md"),
            ev.PolicySet(at=self.now, policy=self.policy),
        )
