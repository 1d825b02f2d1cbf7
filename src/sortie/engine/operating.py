"""A person's commands: read from the store, answered in the log, carried out."""

from __future__ import annotations

from collections.abc import Mapping

from ..core import events as ev
from ..core.operator import obey
from ..errors import StoreError
from ..store.commands import CommandRow, pending_commands
from .active_run import ActiveRun
from .services import Services


async def pending(services: Services) -> list[CommandRow]:
    """What people asked for and was not answered yet; nothing while the store cannot be read."""
    try:
        return await services.ledger.store.read(pending_commands)
    except StoreError:
        return []


async def obey_commands(services: Services, runs: Mapping[str, ActiveRun]) -> None:
    """All that wait, in one transaction; runs are stopped once that is on disk."""
    ledger = services.ledger
    stopping = []
    for command in await pending(services):
        now = services.clock.now()
        answer = obey(ledger.schedule, command.verb, command.issue, now)
        done = ev.Commanded(
            at=now,
            issue_id=answer.issue_id,
            command_id=command.id,
            verb=command.verb,
            outcome=answer.outcome,
            ok=answer.ok,
        )
        ledger.post(done, *answer.events)
        stopping += [event.issue_id for event in answer.events if isinstance(event, ev.Stopping)]
    await ledger.flushed()
    for issue_id in stopping:
        if run := runs.get(issue_id):
            run.stop()
