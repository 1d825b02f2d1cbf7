"""The first thing a start does: find out what the last orchestrator left behind, and bring it to an end.

Orphaned agents are ended before anything else, so that no issue ever has two live runs. Then every open claim is
settled: by its verdict where one was reached, by the agent's signal where its turn had completed, else by a retry.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec.structs import replace

from ..core import events as ev
from ..core.conclude import Outcome, stopped
from ..core.model import Issue, IssueRef, Usage
from ..errors import TrackerError, WorkspaceError
from ..process.identity import Identity
from ..process.sweep import end_orphans
from ..protocol.session_files import remove_credentials
from ..protocol.status_file import read_status
from ..runs.reporter import REASON_LINES
from ..runs.run_log import broker_socket_path, last_words, log_path, tool_log_path
from ..runs.tool_log import ToolLog
from ..store import queries as reading
from ..store.load import ClaimRow, EffectRow, Loaded
from ..tools.broker_server import remove_socket
from ..workspace.directory import open_existing
from .effects import TRACKER_DEADLINE, Effect, deliver, show_progress
from .ending import Ending
from .services import Services
from .tool_calls import Deeds

SETTLED_AT_ONCE = 16

Log = Sequence[ev.AnyEvent]


async def recover(services: Services, loaded: Loaded) -> None:
    """May be cancelled, which is one more crash to the next start; only the orphans are ended first in any case."""
    with anyio.CancelScope(shield=True):
        await _end_orphans(services, loaded)
    limit = anyio.Semaphore(SETTLED_AT_ONCE)
    async with anyio.create_task_group() as tasks:
        for claim in loaded.claims:
            effects = [effect for effect in loaded.effects if effect.run_id == claim.run_id]
            tasks.start_soon(_settle, services, claim, effects, limit)
        open_runs = {claim.run_id for claim in loaded.claims}
        for effect in loaded.effects:
            if effect.run_id not in open_runs:
                tasks.start_soon(_deliver, services, effect, limit)
    _bring_back_retries(services)
    await services.ledger.flushed()


async def _end_orphans(services: Services, loaded: Loaded) -> None:
    known = [
        Identity(claim.pid, claim.start_ticks, claim.boot_id)
        for claim in loaded.claims
        if claim.pid is not None and claim.start_ticks is not None and claim.boot_id is not None
    ]
    by_run = {claim.run_id: claim for claim in loaded.claims}
    root = services.workflow.config.workspace.root.resolve()
    for orphan in await end_orphans(services.ledger.store.store_id, known, root=root):
        claim = by_run.get(orphan.run_id)
        services.ledger.post(
            ev.Noted(
                at=services.clock.now(),
                issue_id=claim.issue_id if claim else "",
                run_id=orphan.run_id,
                level="warning",
                message=f"ended process {orphan.pid}, left behind by an orchestrator that died",
            )
        )


async def _settle(services: Services, claim: ClaimRow, effects: list[EffectRow], limit: anyio.Semaphore) -> None:
    async with limit:
        log = await _log_of(services, claim.run_id)
        await _clear_up(services, claim, log)
        in_its_place = await _take_back_credentials(claim, log)
        running = services.ledger.schedule.running[claim.issue_id]
        issue = await _issue(services, claim)
        outcome = _outcome(services, claim, in_its_place)
        if not claim.ending and outcome.status == "succeeded":
            issue = await _shown_in_progress(services, claim, issue)
        ending = Ending(services, services.workflow, services.tracker, running, issue)
        if claim.ending:
            pending = [_effect(row) for row in effects]
            await ending.resume(claim.ending, pending, handed_before=_handed_over(log))
            return
        for row in effects:
            await deliver(_effect(row), services.tracker, services.ledger, services.clock.now, again=True)
        await ending.finish(outcome, _usage(log))


async def _shown_in_progress(services: Services, claim: ClaimRow, issue: Issue) -> Issue:
    """The agent was at work, and the tracker may not have been told yet."""

    def warn(message: str, detail: str) -> None:
        services.ledger.post(
            ev.Noted(
                at=services.clock.now(),
                issue_id=claim.issue_id,
                run_id=claim.run_id,
                level="warning",
                message=message,
                detail=services.redactor.text(detail),
            )
        )

    config = services.workflow.config
    target = config.tracker.in_progress_state
    if config.policy().is_active(issue.state) and await show_progress(issue, target, services.tracker, warn):
        return replace(issue, state=target)
    return issue


async def _clear_up(services: Services, claim: ClaimRow, log: Log) -> None:
    """What the tool servers of the run left: calls that were not counted yet, and the socket of its broker."""
    config = services.workflow.config
    db_path, brokered = config.db_path, config.tools.credentials == "broker"
    calls = ToolLog(tool_log_path(db_path, claim.run_id), brokered=brokered)
    counted = sum(isinstance(event, ev.ToolCalled) and not event.witnessed for event in log)
    actor = IssueRef(claim.issue_id, claim.identifier)
    schedule, redactor = services.ledger.schedule, services.redactor
    deeds = Deeds(actor, claim.run_id, schedule, services.tracker, redactor, brokered=brokered)
    for call in calls.news()[counted:]:
        services.ledger.post(*await deeds.events(call, services.clock.now()))
    calls.remove()
    remove_socket(broker_socket_path(db_path, claim.run_id))


async def _take_back_credentials(claim: ClaimRow, log: Log) -> bool:
    """Those of the session, out of its workspace; False where that path leads to another directory or to none."""
    made = [event for event in log if isinstance(event, ev.WorkspaceMade)]
    return bool(made) and await to_thread.run_sync(_remove_credentials, Path(claim.workspace), made[-1].inode)


def _remove_credentials(path: Path, inode: int) -> bool:
    try:
        with open_existing(path) as workspace:
            workspace.verify()
            if inode not in (0, workspace.inode):
                return False
            remove_credentials(workspace.fd)
            return True
    except WorkspaceError:
        return False


def _outcome(services: Services, claim: ClaimRow, in_its_place: bool) -> Outcome:
    reached = Outcome(
        status="cancelled",
        turns=claim.turn if claim.turn_done else max(claim.turn - 1, 0),
        session_id=claim.session_id,
    )
    if claim.stop_cause and claim.stop_cause != "shutdown":
        return stopped(reached, claim.stop_cause, claim.stop_detail)
    if claim.turn_done and in_its_place:
        # The turn had completed, so what the agent wrote is its word, and files outlive orchestrators.
        status = read_status(Path(claim.workspace))
        if status.token:
            log = log_path(services.workflow.config.db_path, claim.run_id)
            return Outcome(
                status="succeeded",
                turns=reached.turns,
                soft_stop=status.token,
                reason=status.reason or last_words(log, "agent", REASON_LINES),
                session_id=claim.session_id,
            )
    return stopped(reached, "crash", "the orchestrator died during this run")


def _usage(log: Log) -> Usage:
    """What the run had been charged for before the crash."""
    total = Usage()
    for event in log:
        if isinstance(event, ev.Charged):
            total = total.plus(event.usage)
    return total


def _handed_over(log: Log) -> bool:
    """Whether the hand-off had been made before the crash."""
    planned = {event.effect_id: event.argument for event in log if isinstance(event, ev.EffectPlanned)}
    done = [event for event in log if isinstance(event, ev.EffectDone) and event.verb == "transition"]
    return any(event.ok and event.detail == planned.get(event.effect_id) for event in done)


async def _log_of(services: Services, run_id: str) -> Log:
    """All that is on record of a run."""
    logged = await services.ledger.store.read(lambda db: reading.events(db, run_id=run_id, limit=1_000_000))
    return [entry.event for entry in logged]


async def _issue(services: Services, claim: ClaimRow) -> Issue:
    """The issue as it is now; where the tracker does not answer, what is remembered of it."""
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            return await services.tracker.fetch_issue(claim.issue_id)
    except (TrackerError, TimeoutError):
        view = services.ledger.schedule.issues.get(claim.issue_id)
        title, state = (view.title, view.state) if view else ("", "")
        return Issue(id=claim.issue_id, identifier=claim.identifier, title=title, state=state)


async def _deliver(services: Services, row: EffectRow, limit: anyio.Semaphore) -> None:
    async with limit:
        await deliver(_effect(row), services.tracker, services.ledger, services.clock.now, again=True)


def _effect(row: EffectRow) -> Effect:
    return Effect(
        effect_id=row.effect_id, issue_id=row.issue_id, run_id=row.run_id, verb=row.verb, argument=row.argument
    )


def _bring_back_retries(services: Services) -> None:
    """A clock that was set back must not postpone a retry beyond the longest back-off."""
    now = services.clock.now()
    latest = now + services.ledger.schedule.policy.backoff_cap
    for issue_id, waiting in list(services.ledger.schedule.waiting.items()):
        if waiting.retry.kind != "limit" and waiting.retry.due_at > latest:
            why = "its time lay further ahead than the longest back-off"
            services.ledger.post(ev.RetryDue(at=now, issue_id=issue_id, due_at=latest, why=why))
