"""Decides, commits the decision, carries it out. Knows the live runs, starts and stops them; nothing else does."""

from __future__ import annotations

from collections.abc import Callable

from ..core import events as ev
from ..core.decide import Tick, decide
from ..core.model import Issue, Usage
from ..core.policy import Liveness, overdue
from .active_run import ActiveRun
from .context import Context
from .effects import entries

# It may be the agent itself that has just closed its issue, and has a sentence left to say.
LAST_WORDS = 5.0


class Dispatcher:
    def __init__(self, context: Context, spawn: Callable[[ActiveRun, Usage | None], object]) -> None:
        self._context = context
        self._spawn = spawn
        self.runs: dict[str, ActiveRun] = {}

    async def dispatch(self, *, candidates_known: bool) -> None:
        context, ledger = self._context, self._context.ledger
        for run in self.runs.values():
            run.bill()
        now = context.clock.now()
        tick = Tick(
            now=now,
            candidates_known=candidates_known,
            overdue=overdue(self.liveness(), context.schedule.policy, now),
            day=context.clock.day(now),
            places=context.hosts.places(context.schedule.running.values()),
        )
        events = decide(context.schedule, tick, ledger.queue)
        if not events:
            return
        # No await between the decision and its record: whatever slipped in between could not be replayed.
        ledger.post(tick.recorded(len(events)), *events)
        self._record_parkings(events)
        starts = [event for event in events if isinstance(event, ev.Claimed)]
        stops = [event for event in events if isinstance(event, ev.Stopping)]
        if not starts and not stops:
            return
        await ledger.flushed()
        for stop in stops:
            if stopping := self.runs.get(stop.issue_id):
                stopping.stop(LAST_WORDS if stop.cause in ("terminal", "inactive") else 0.0)
        if starts and ledger.store.is_lost():
            return  # the claims were written to where nobody will find them
        for claimed in starts:
            self.follow(ActiveRun(context, context.schedule.running[claimed.issue_id]))

    def _record_parkings(self, events: list[ev.AnyEvent]) -> None:
        context = self._context
        for event in events:
            if isinstance(event, ev.Parked) and (view := context.schedule.issues.get(event.issue_id)):
                issue = Issue(id=view.id, identifier=view.identifier, title=view.title, state=view.state)
                writes = context.source.writes_when_parked(issue, event.park)
                context.ledger.post(*entries(view.id, "", writes, event.at))

    def follow(self, run: ActiveRun, charged: Usage | None = None) -> None:
        """`charged` is on record where the run goes on that an earlier orchestrator started."""
        self.runs[run.claim.issue_id] = run
        self._spawn(run, charged)

    def run_ended(self, run: ActiveRun) -> None:
        if self.runs.get(run.claim.issue_id) is run:  # by now the issue may have its next run
            del self.runs[run.claim.issue_id]

    def liveness(self) -> list[Liveness]:
        """Of the runs that may become overdue: one that is being ended cannot."""
        running = self._context.schedule.running
        live = {claim.run_id for claim in running.values() if not claim.stop and not claim.ended}
        return [run.liveness for run in self.runs.values() if run.claim.run_id in live]

    async def stop_all(self) -> None:
        """Drain: the cause is on disk before the first signal is sent."""
        context, running = self._context, self._context.schedule.running
        live = [run for key, run in running.items() if key in self.runs and not run.stop and not run.ended]
        now, detail = context.clock.now(), "the orchestrator was asked to stop"
        await context.ledger.record(
            *(
                ev.Stopping(at=now, issue_id=run.issue_id, run_id=run.run_id, cause="shutdown", detail=detail)
                for run in live
            )
        )
        for issue_id, active in self.runs.items():
            claim = running.get(issue_id)
            if claim and claim.stop:  # one that was claimed meanwhile has its turn when the last decision is out
                active.stop()
