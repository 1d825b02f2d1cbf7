"""A person's commands: read from the store, answered in the log, carried out."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from msgspec.structs import replace

from ..core import events as ev
from ..core.observe import view_of
from ..core.operator import find, obey
from ..errors import StoreError, TrackerError
from ..store.commands import CommandRow, pending_commands
from .active_run import ActiveRun
from .context import Context
from .effects import TRACKER_DEADLINE


class OperatorCommands:
    """Commands come through the database, from other processes: its version shows whether there can be any."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._version = -1
        self._waiting: list[CommandRow] = []

    async def look(self) -> bool:
        """Whether there are commands to obey. Costs next to nothing while nobody writes."""
        store = self._context.ledger.store
        version = store.version()
        if not self._waiting and version != self._version:
            try:
                self._waiting = await store.read(pending_commands)
                self._version = version
            except StoreError:
                pass  # asked again soon
        return bool(self._waiting)

    async def obey(self, runs: Mapping[str, ActiveRun]) -> None:
        """All that wait, in one transaction; runs are stopped once that is on disk."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        ledger, stopping = self._context.ledger, []
        for command in waiting:
            problem = await self._fetch(command.issue) if command.verb == "start" else ""
            now = self._context.clock.now()
            answer = obey(self._context.schedule, command.verb, command.issue, now)
            if problem and not answer.ok:
                answer = replace(answer, outcome=problem)
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

    async def _fetch(self, name: str) -> str:
        """An issue that no look has shown is looked up, so that a run of it can be asked for; why that failed."""
        context = self._context
        if (known := find(context.schedule, name)) and known in context.schedule.issues:
            return ""
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                issue = await context.source.find(name)
        except TrackerError as error:
            return f"{name} was not found: {error}"
        except TimeoutError:
            return f"{name} cannot be looked up: the tracker did not answer within {TRACKER_DEADLINE:g} s."
        view = view_of(issue, context.schedule.policy, parked=issue.id in context.schedule.parked)
        context.ledger.post(ev.IssueSeen(at=context.clock.now(), issue_id=issue.id, view=view))
        return ""
