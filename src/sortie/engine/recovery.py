"""The first thing a start does: find out what the last orchestrator left behind, and bring it to an end.

A run that its host still has goes on where it is. Of all others what is left is ended before anything else, so that
no issue ever has two live runs; then each is settled: by its verdict where one was reached, by the agent's signal
where its turn had completed, else by a retry. What a limit of the tracker holds up is settled when that is over,
and holds up nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
from msgspec.structs import replace

from ..core import events as ev
from ..core.model import Issue, IssueRef, Usage
from ..core.records import Claim
from ..core.recover import model_on_record, outcome_after_crash, recover, usage_on_record, was_handed_over
from ..errors import TrackerError
from ..hosts.host import OpenRun, Remains, RunLost, RunNotFound
from ..runs.run_log import last_words, log_path
from ..runs.spec import Signal
from ..runs.tool_log import ToolCall
from ..store import queries
from .active_run import ActiveRun
from .context import Context
from .effects import TRACKER_DEADLINE, deliver, entries, show_progress
from .ending import Ending
from .tool_calls import ToolCalls
from .tracker_limit import Patience, Postponed

SETTLED_AT_ONCE = 16
REASON_LINES = 5

Log = Sequence[ev.AnyEvent]
Step = Callable[[], Coroutine[Any, Any, None]]


class Recovery:
    """`attached` are the runs that go on, each with what it has been charged for. `postponed` are the steps that
    are left because the tracker wants no calls for now: each ends by itself, also when we are asked to stop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._few = anyio.Semaphore(SETTLED_AT_ONCE)
        self.attached: list[tuple[ActiveRun, Usage]] = []
        self.postponed: list[Step] = []

    async def run(self) -> None:
        """May be cancelled, which is one more crash to the next start; only what is left alive is ended first in
        any case."""
        context = self._context
        claims = list(context.schedule.running.values())
        # Entries of the work log hold nobody up, nor does what belongs to no run: these have queues of their own.
        planned = context.schedule.effects.values()
        effects = [effect for effect in planned if effect.verb != "record" and effect.run_id]
        with anyio.CancelScope(shield=True):
            left = [claim for claim in claims if claim.ended or not await self._attach(claim)]
            await self._sweep(left)
        async with anyio.create_task_group() as tasks:
            for claim in left:
                tasks.start_soon(self._take, partial(self._settle, claim.issue_id))
            open_runs = {claim.run_id for claim in claims}
            for effect in effects:
                if effect.run_id not in open_runs:
                    tasks.start_soon(self._take, partial(self._deliver, effect))
        context.ledger.post(*recover(context.schedule, context.clock.now()))
        await context.ledger.flushed()

    async def _take(self, step: Callable[[bool], Coroutine[Any, Any, None]]) -> None:
        """A step that need not wait for a limit of the tracker: it is taken once more, by who has the time."""
        try:
            async with self._few:
                await step(False)
        except Postponed:
            self.postponed.append(partial(self._take_in_time, step))

    async def _take_in_time(self, step: Callable[[bool], Coroutine[Any, Any, None]]) -> None:
        with suppress(Postponed):  # the next start takes it up
            await step(True)
        self._context.wake.set()

    async def _attach(self, claim: Claim) -> bool:
        try:
            await self._context.hosts.of(claim.host).attach(claim.run_id)
        except (RunNotFound, RunLost):
            return False
        log, run = await self._log_of(claim.run_id), ActiveRun(self._context, claim)
        run.model = model_on_record(log)
        self.attached.append((run, usage_on_record(log)))
        return True

    async def _sweep(self, claims: list[Claim]) -> None:
        context = self._context
        by_run = {claim.run_id: claim for claim in claims}
        attached = {run.claim.run_id for run, _ in self.attached}
        for host in context.hosts.all():
            runs = [self._open_run(claim) for claim in claims if context.hosts.of(claim.host) is host]
            try:
                ended = await host.sweep(context.store_id, runs, context.source.workspace_root, attached)
            except RunLost as error:
                context.hosts.lost_all(host)
                context.note("warning", "a host cannot be asked what it has left; nothing starts there", str(error))
                continue
            for left in ended:
                claim = by_run.get(left.run_id)
                context.note(
                    "warning",
                    f"ended process {left.pid}, left behind by an orchestrator that died",
                    issue_id=claim.issue_id if claim else "",
                    run_id=left.run_id,
                )

    def _open_run(self, claim: Claim) -> OpenRun:
        return OpenRun(
            store_id=self._context.store_id,
            run_id=claim.run_id,
            host=claim.host,
            workspace=claim.workspace,
            inode=claim.inode,
            signal=cast("Signal", claim.signal),
            pid=claim.pid,
            start_ticks=claim.start_ticks,
            boot_id=claim.boot_id,
        )

    async def _settle(self, issue_id: str, waits: bool) -> None:
        context, source, claim = self._context, self._context.source, self._context.schedule.running[issue_id]
        log = await self._log_of(claim.run_id)
        remains = await self._remains(claim)
        await self._tell_tool_calls(claim, log, remains.tool_lines)
        issue = await self._issue(claim, waits)
        await self._complete_the_move(issue)
        if claim.ending:
            ending = Ending(context, source, claim, issue, waits=waits)
            await ending.resume(claim.ending, handed_before=was_handed_over(log))
            return
        reason = remains.reason or last_words(self._log_path(claim), "agent", REASON_LINES)
        outcome = outcome_after_crash(claim, remains.signal, reason, recoverable=remains.recoverable)
        if outcome.status == "succeeded" and source.policy.is_active(issue.state):
            # The agent was at work, and the source may not have been told yet.
            state = await show_progress(issue, issue.state, source, context, claim.run_id)
            issue = replace(issue, state=state or issue.state)
        if claim.turn_done:
            self._record_start(claim, issue, log)
        ending = Ending(context, source, claim, issue, waits=waits)
        await ending.finish(outcome, usage_on_record(log), model_on_record(log))

    async def _complete_the_move(self, issue: Issue) -> None:
        """Of an issue that its agent brought to an end: where a tracker needs several calls for that, the last may
        be missing. Where none is, nothing is done."""
        if self._context.source.policy.is_terminal(issue.state):
            with suppress(TrackerError, TimeoutError), anyio.fail_after(TRACKER_DEADLINE):
                await self._context.source.transition(issue.id, issue.state)

    def _record_start(self, claim: Claim, issue: Issue, log: Log) -> None:
        """That work had begun, where nobody had come to plan the entry."""
        context = self._context
        known = {event.effect_id for event in log if isinstance(event, ev.EffectPlanned)}
        writes = context.source.writes_at_start(issue, claim)
        begun = entries(claim.issue_id, claim.run_id, writes, context.clock.now())
        context.ledger.post(*(entry for entry in begun if entry.effect_id not in known))

    async def _remains(self, claim: Claim) -> Remains:
        try:
            return await self._context.hosts.of(claim.host).remains(self._open_run(claim))
        except RunLost:
            return Remains()

    async def _tell_tool_calls(self, claim: Claim, log: Log, lines: Sequence[bytes]) -> None:
        """Calls that the tool servers of the run had written down and nobody had counted."""
        context = self._context
        counted = sum(isinstance(event, ev.ToolCalled) and not event.witnessed for event in log)
        actor = IssueRef(claim.issue_id, claim.identifier)
        calls = ToolCalls(actor, claim.run_id, context.schedule, context.source, context.redactor)
        calls.brokered = any(isinstance(event, ev.ToolCalled) and event.witnessed for event in log)
        for line in lines[counted:]:
            if call := ToolCall.recorded(line, brokered=calls.brokered):
                context.ledger.post(*await calls.events(call, context.clock.now()))

    async def _log_of(self, run_id: str) -> Log:
        """All that is on record of a run."""
        store = self._context.ledger.store
        logged = await store.read(partial(queries.events, run_id=run_id, limit=1_000_000))
        return [entry.event for entry in logged]

    async def _issue(self, claim: Claim, waits: bool) -> Issue:
        """The issue as it is now; where the source does not answer, what is remembered of it."""
        patience = Patience(self._context.limit, waits=waits)
        while True:
            try:
                with anyio.fail_after(TRACKER_DEADLINE):
                    return await self._context.source.fetch(claim.issue_id)
            except (TrackerError, TimeoutError) as error:
                if not await patience.outlasts(error):
                    view = self._context.schedule.issues.get(claim.issue_id)
                    title, state = (view.title, view.state) if view else ("", "")
                    return Issue(id=claim.issue_id, identifier=claim.identifier, title=title, state=state)

    async def _deliver(self, effect: ev.EffectPlanned, waits: bool) -> None:
        context = self._context
        patience = Patience(context.limit, waits=waits)
        delivery = await deliver(effect, context.source, context.clock.now, again=True, patience=patience)
        context.ledger.post(delivery.done)

    def _log_path(self, claim: Claim) -> Path:
        return log_path(self._context.ledger.store.path, claim.run_id)
