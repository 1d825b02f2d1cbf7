"""Workspaces of finished issues: hook, archive, remove. Never one of a run, never without a copy."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import anyio
from anyio import from_thread, to_thread

from ..core import events as ev
from ..core.model import Issue
from ..errors import SortieError, TrackerError
from ..hosts.environment import run_environment
from ..store.load import WorkspaceRow
from ..store.reading import history
from ..workspace.archive import archive_and_remove, prune
from ..workspace.hooks import run_hook
from ..workspace.place import open_existing
from .effects import TRACKER_DEADLINE
from .runlog import archive_directory, logs_directory, prune_logs
from .services import Services

CHECK_EVERY = 600.0


class Cleanup:
    """Looks at start, whenever an issue leaves the active ones, and every ten minutes."""

    def __init__(self, services: Services, workspaces: list[WorkspaceRow]) -> None:
        self._services = services
        self._workspaces = {row.key: row for row in workspaces}
        self._kept: dict[str, str] = {}
        self._asked = anyio.Event()
        self.busy = False

    def heard(self, event: ev.AnyEvent) -> None:
        """A listener of the ledger: keeps the list of workspaces, and looks again when an issue goes."""
        match event:
            case ev.WorkspaceMade():
                self._workspaces[event.key] = WorkspaceRow(
                    event.key, event.issue_id, event.identifier, event.path, event.at
                )
            case ev.WorkspaceGone():
                self._workspaces.pop(event.key, None)
                self._kept.pop(event.key, None)
            case ev.IssueLeft():
                if any(row.issue_id == event.issue_id for row in self._workspaces.values()):
                    self.ask()
            case _:
                pass

    def ask(self) -> None:
        self.busy = True
        self._asked.set()

    async def run_forever(self) -> None:
        while True:
            self._asked = anyio.Event()
            self.busy = True
            await self._sweep()
            self.busy = self._asked.is_set()
            self._services.wake.set()
            with anyio.move_on_after(CHECK_EVERY):
                await self._asked.wait()

    async def _sweep(self) -> None:
        await to_thread.run_sync(self._prune)
        idle = [row for row in self._workspaces.values() if row.issue_id not in self._services.ledger.world.running]
        if not idle:
            return
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                states = await self._services.tracker.fetch_states([row.issue_id for row in idle])
        except (TrackerError, TimeoutError):
            return  # nothing is removed on a guess; the tick reports a tracker that does not answer
        world = self._services.ledger.world
        self._unpark_done(idle, states)
        for row in idle:
            if world.policy.is_terminal(states.get(row.issue_id, "")) and row.issue_id not in world.running:
                await self._remove(row, states[row.issue_id])

    def _unpark_done(self, rows: list[WorkspaceRow], states: dict[str, str]) -> None:
        """A parked issue that vanished and came back as done is no candidate any more; nobody else would notice."""
        world, now = self._services.ledger.world, self._services.clock.now()
        for row in rows:
            state = states.get(row.issue_id, "")
            if row.issue_id in world.parked and world.policy.is_terminal(state):
                why = f"the issue moved to {state}"
                freed = ev.Unparked(at=now, issue_id=row.issue_id, identifier=row.identifier, why=why)
                self._services.ledger.post(freed)

    async def _remove(self, row: WorkspaceRow, state: str) -> None:
        config = self._services.workflow.config
        try:
            await self._before_remove(row, state)
            archive = await to_thread.run_sync(
                archive_and_remove,
                Path(row.path).parent,
                row.key,
                archive_directory(config.db_path),
                row.identifier,
                from_thread.check_cancelled,
            )
        except (SortieError, OSError) as error:
            if self._kept.get(row.key) != str(error):  # said once, not with every try
                self._note(row, "the workspace was kept", str(error))
            self._kept[row.key] = str(error)
            return
        await self._services.ledger.record(
            ev.WorkspaceGone(
                at=self._services.clock.now(), issue_id=row.issue_id, key=row.key, archive=str(archive or "")
            )
        )

    async def _before_remove(self, row: WorkspaceRow, state: str) -> None:
        """Its failure is a note: the archive that follows is the safety net."""
        config = self._services.workflow.config
        if not config.hooks.before_remove or not Path(row.path).is_dir():
            return
        issue = Issue(id=row.issue_id, identifier=row.identifier, title="", state=state)
        run_id = f"remove-{row.key}"
        with await to_thread.run_sync(open_existing, Path(row.path)) as workspace:
            try:
                await run_hook(
                    "before_remove",
                    config.hooks.before_remove,
                    workspace=workspace.path,
                    workspace_fd=workspace.fd,
                    env=run_environment(
                        os.environ,
                        extra_names=config.agent.env,
                        store_id=self._services.ledger.store.store_id,
                        run_id=run_id,
                        issue=issue,
                        workspace=workspace.path,
                        attempt=await self._last_attempt(row.issue_id),
                    ),
                    run_id=run_id,
                    timeout=config.hooks.timeout,
                    on_line=lambda _: None,
                )
            except SortieError as error:
                self._note(row, "before_remove failed", str(error))

    async def _last_attempt(self, issue_id: str) -> int:
        """The number of the issue's last run: what is removed is what that one left."""
        runs = await self._services.ledger.store.read(partial(history, issue_id=issue_id, limit=1))
        return runs[0].attempt if runs else 0

    def _prune(self) -> None:
        config, clock = self._services.workflow.config, self._services.clock
        now = clock.on_calendar(clock.now())  # as the times of files are
        prune(archive_directory(config.db_path), config.workspace.archive_keep_days, now)
        prune_logs(logs_directory(config.db_path), config.workspace.archive_keep_days, now)

    def _note(self, row: WorkspaceRow, message: str, detail: str) -> None:
        self._services.ledger.post(
            ev.Noted(
                at=self._services.clock.now(),
                issue_id=row.issue_id,
                level="warning",
                message=message,
                detail=self._services.redactor.text(detail),
            )
        )
