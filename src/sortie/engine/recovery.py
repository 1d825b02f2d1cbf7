"""The first thing a start does: find out what the last orchestrator left behind, and bring it to an end.

A run that its host still has goes on where it is. Of all others what is left is ended before anything else, so that
no issue ever has two live runs; then each is settled: by its verdict where one was reached, by the agent's signal
where its turn had completed, else by a retry.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

import anyio
from msgspec.structs import replace

from ..core import events as ev
from ..core.model import Issue, IssueRef, Usage
from ..core.records import Claim
from ..core.recover import outcome_after_crash, recover, usage_on_record, was_handed_over
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

SETTLED_AT_ONCE = 16
REASON_LINES = 5

Log = Sequence[ev.AnyEvent]


class Recovery:
    """`attached` are the runs that go on, each with what it has been charged for."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._limit = anyio.Semaphore(SETTLED_AT_ONCE)
        self.attached: list[tuple[ActiveRun, Usage]] = []

    async def run(self) -> None:
        """May be cancelled, which is one more crash to the next start; only what is left alive is ended first in
        any case."""
        context = self._context
        claims = list(context.schedule.running.values())
        # Entries of the work log hold nobody up: the recorder has them.
        effects = [effect for effect in context.schedule.effects.values() if effect.verb != "record"]
        with anyio.CancelScope(shield=True):
            left = [claim for claim in claims if claim.ended or not await self._attach(claim)]
            await self._sweep(left)
        async with anyio.create_task_group() as tasks:
            for claim in left:
                pending = [effect for effect in effects if effect.run_id == claim.run_id]
                tasks.start_soon(self._settle, claim, pending)
            open_runs = {claim.run_id for claim in claims}
            for effect in effects:
                if effect.run_id not in open_runs:
                    tasks.start_soon(self._deliver, effect)
        context.ledger.post(*recover(context.schedule, context.clock.now()))
        await context.ledger.flushed()

    async def _attach(self, claim: Claim) -> bool:
        try:
            await self._context.hosts.of(claim.host).attach(claim.run_id)
        except (RunNotFound, RunLost):
            return False
        charged = usage_on_record(await self._log_of(claim.run_id))
        self.attached.append((ActiveRun(self._context, claim), charged))
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

    async def _settle(self, claim: Claim, effects: list[ev.EffectPlanned]) -> None:
        context, source = self._context, self._context.source
        async with self._limit:
            log = await self._log_of(claim.run_id)
            remains = await self._remains(claim)
            await self._tell_tool_calls(claim, log, remains.tool_lines)
            issue = await self._issue(claim)
            if claim.ending:
                ending = Ending(context, source, claim, issue)
                await ending.resume(claim.ending, effects, handed_before=was_handed_over(log))
                return
            reason = remains.reason or last_words(self._log_path(claim), "agent", REASON_LINES)
            outcome = outcome_after_crash(claim, remains.signal, reason, recoverable=remains.recoverable)
            if outcome.status == "succeeded" and source.policy.is_active(issue.state):
                # The agent was at work, and the source may not have been told yet.
                warn = partial(context.note, "warning", issue_id=claim.issue_id, run_id=claim.run_id)
                state = await show_progress(issue, issue.state, source, warn)
                issue = replace(issue, state=state or issue.state)
            if claim.turn_done:
                self._record_start(claim, issue, log)
            for effect in effects:
                await self._carry_out(effect, by_hand=claim.by_hand)
            await Ending(context, source, claim, issue).finish(outcome, usage_on_record(log))

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

    async def _issue(self, claim: Claim) -> Issue:
        """The issue as it is now; where the source does not answer, what is remembered of it."""
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                return await self._context.source.fetch(claim.issue_id)
        except (TrackerError, TimeoutError):
            view = self._context.schedule.issues.get(claim.issue_id)
            title, state = (view.title, view.state) if view else ("", "")
            return Issue(id=claim.issue_id, identifier=claim.identifier, title=title, state=state)

    async def _deliver(self, effect: ev.EffectPlanned) -> None:
        async with self._limit:
            await self._carry_out(effect)

    async def _carry_out(self, effect: ev.EffectPlanned, *, by_hand: bool = False) -> None:
        context = self._context
        delivery = await deliver(effect, context.source, context.clock.now, again=True, by_hand=by_hand)
        context.ledger.post(delivery.done)

    def _log_path(self, claim: Claim) -> Path:
        return log_path(self._context.ledger.store.path, claim.run_id)
