"""One tick: look at the tracker, decide, commit the decision, carry it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio

from ..core import actions as act
from ..core import events as ev
from ..core.decide import Tick, decide
from ..core.liveness import Pulse, overdue
from ..core.model import Issue
from ..errors import SortieError, TrackerError, WorkspaceError
from .active_run import ActiveRun
from .gather import Findings, look
from .services import Services


class Ticker:
    """Knows the live runs, starts and stops them; nothing else does.

    `undecided` says that the last tick left out issues whose runs ended while it looked: another one must follow.
    `trouble` is why the last look failed; then nothing new starts.
    """

    def __init__(self, services: Services, spawn: Callable[[ActiveRun], object]) -> None:
        self._services = services
        self._spawn = spawn
        self.runs: dict[str, ActiveRun] = {}
        self._touched: set[str] = set()
        self._looking = anyio.CancelScope()
        self.undecided = False
        self.trouble: SortieError | None = None
        self._problems: tuple[str, ...] = ()
        self._remarked: set[str] | None = None
        self._has_seen_work = False
        services.ledger.listen(self._heard)

    async def tick(self) -> None:
        found: Findings | None = None
        with self._looking:
            found = await self._look()
        if self._looking.cancel_called:
            return
        self._looking = anyio.CancelScope()
        ledger = self._services.ledger
        for run in self.runs.values():
            run.bill()
        now = self._services.clock.now()
        ledger.post(*(found.events if found else ()))
        tick = Tick(
            now=now,
            candidates_known=found is not None,
            overdue=overdue(self.pulses(), ledger.schedule.policy, now),
            unsure=tuple(sorted(self._touched)),
            day=self._services.clock.day(now),
        )
        self.undecided = bool(tick.unsure)
        actions = decide(ledger.schedule, tick)
        # No await between the decision and its record: whatever slipped in between could not be replayed.
        if actions:
            events, starts, stops = self._events(actions, tick)
            await ledger.record(*events)
            if starts and ledger.store.is_lost():
                starts = []  # the claim was written to where nobody will find it
            self._carry_out(starts, stops, found.issues if found else {})

    def stop_looking(self) -> None:
        """For good: a look that waits for the tracker is given up, and nothing is decided on it."""
        self._looking.cancel()

    def run_ended(self, run: ActiveRun) -> None:
        if self.runs.get(run.claim.issue_id) is run:  # by now the issue may have its next run
            del self.runs[run.claim.issue_id]

    def pulses(self) -> list[Pulse]:
        """Of the runs that may become overdue: one that is being ended cannot."""
        running = self._services.ledger.schedule.running
        live = {claim.run_id for claim in running.values() if not claim.stop and not claim.ended}
        return [run.pulse for run in self.runs.values() if run.claim.run_id in live]

    def _heard(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.Settled):
            self._touched.add(event.issue_id)

    async def _look(self) -> Findings | None:
        self._touched.clear()
        schedule, now = self._services.ledger.schedule, self._services.clock.now()
        try:
            self._services.root.verify()
            found = await look(self._services.tracker, schedule, now, self._touched)
        except (TrackerError, WorkspaceError) as error:
            if str(error) != str(self.trouble):
                self._note("warning", f"{_what(error)} cannot be used; nothing new starts", str(error))
            self.trouble = error
            return None
        if self.trouble:
            self._note("info", f"{_what(self.trouble)} can be used again", "")
        self.trouble = None
        known = {*self._problems}
        for problem in found.problems:
            if problem not in known:
                self._note("warning", "a record of the tracker is ignored", problem)
        if self._problems and not found.problems:
            self._note("info", "every record of the tracker can be used again", "")
        self._problems = found.problems
        self._remark(found)
        return found

    def _remark(self, found: Findings) -> None:
        """What keeps issues from being worked on, once; that none is active is no news when all are done."""
        self._has_seen_work = self._has_seen_work or bool(found.issues)
        changed = any(isinstance(event, ev.IssueSeen) for event in found.events)
        if self._remarked is not None and found.issues and not changed:
            return  # blockers are part of what is seen of an issue
        known = self._remarked or set()
        remarks = {one.what: one for one in found.remarks() if one.about_issue or not self._has_seen_work}
        for what, remark in remarks.items():
            if what not in known:
                self._note("warning", what, remark.detail)
        self._remarked = {*remarks}

    def _events(
        self, actions: list[act.Action], tick: Tick
    ) -> tuple[list[ev.AnyEvent], list[ev.Claimed], list[act.Stop]]:
        """The decision as events, in order: first the record of the tick, then what it changes."""
        ticked = ev.Ticked(
            at=tick.now,
            now=tick.now,
            candidates_known=tick.candidates_known,
            overdue=tick.overdue,
            unsure=tick.unsure,
            actions=tuple(actions),
        )
        events: list[ev.AnyEvent] = [ticked]
        starts: list[ev.Claimed] = []
        stops: list[act.Stop] = []
        for action in actions:
            event = self._event(action, tick)
            events.append(event)
            if isinstance(event, ev.Claimed):
                starts.append(event)
            if isinstance(action, act.Stop):
                stops.append(action)
        return events, starts, stops

    def _event(self, action: act.Action, tick: Tick) -> ev.AnyEvent:
        now = tick.now
        match action:
            case act.Start():
                return self._claim(action, tick)
            case act.Stop():
                return ev.Stopping(
                    at=now,
                    issue_id=action.issue_id,
                    run_id=action.run_id,
                    cause=action.cause,
                    detail=action.detail,
                )
            case act.Skip():
                return ev.Skipped(
                    at=now,
                    issue_id=action.issue_id,
                    identifier=action.identifier,
                    rule=action.rule,
                    detail=action.detail,
                )
            case act.DropRetry():
                return ev.RetryDropped(
                    at=now, issue_id=action.issue_id, identifier=action.identifier, why=action.why
                )
            case act.Unpark():
                return ev.Unparked(at=now, issue_id=action.issue_id, identifier=action.identifier, why=action.why)
            case act.ParkIssue():
                park = ev.Park(
                    kind="budget",
                    reason=action.reason,
                    fingerprint="",
                    attempt=action.attempt,
                    session_id=action.session_id,
                )
                return ev.Parked(at=now, issue_id=action.issue_id, identifier=action.identifier, park=park)

    def _claim(self, start: act.Start, tick: Tick) -> ev.Claimed:
        return ev.Claimed(
            at=tick.now,
            issue_id=start.issue_id,
            run_id=self._services.new_run_id(),
            identifier=start.identifier,
            attempt=start.attempt,
            failures=start.failures,
            cause=start.cause,
            agent=self._services.workflow.config.agent.kind,
            session_id=start.session_id,
            day=tick.day,
        )

    def _carry_out(self, starts: Iterable[ev.Claimed], stops: Iterable[act.Stop], issues: dict[str, Issue]) -> None:
        for stop in stops:
            if run := self.runs.get(stop.issue_id):
                run.stop()
        for claimed in starts:
            claim = self._services.ledger.schedule.running[claimed.issue_id]
            run = ActiveRun(self._services, claim, issues[claimed.issue_id], claimed.session_id)
            self.runs[claimed.issue_id] = run
            self._spawn(run)

    def _note(self, level: ev.Level, message: str, detail: str) -> None:
        text = self._services.redactor.text(detail)
        self._services.ledger.post(
            ev.Noted(at=self._services.clock.now(), level=level, message=message, detail=text)
        )


def _what(trouble: SortieError) -> str:
    return "the place of the workspaces" if isinstance(trouble, WorkspaceError) else "the tracker"
