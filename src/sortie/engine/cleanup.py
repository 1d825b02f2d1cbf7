"""Workspaces of finished issues: hook, archive, remove. Never one of a run, never without a copy.

A removal takes its time, and people change their minds: it gives way to a run that wants the workspace, and the
tracker is asked again after the hook and before anything is removed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from anyio import from_thread, to_thread

from ..core import events as ev
from ..core.model import Issue
from ..errors import SortieError, TrackerError, WorkspaceError
from ..runs.environment import run_environment
from ..runs.run_log import archive_directory, logs_directory, prune_logs
from ..store.load import WorkspaceRow
from ..store.queries import history, workspace_made
from ..workspace.directory import Known, open_existing
from ..workspace.hooks import run_hook
from ..workspace.removal import archive_workspace, prune, remove_archived, workspace_of
from .effects import TRACKER_DEADLINE
from .services import Services

CHECK_EVERY = 600.0


class _Wanted(Exception):
    """The issue is not done any more."""


class Cleanup:
    """Looks at start, whenever an issue leaves the active ones, and every ten minutes."""

    def __init__(self, services: Services, workspaces: list[WorkspaceRow]) -> None:
        self._services = services
        self._workspaces = {row.key: row for row in workspaces}
        self._said: dict[str, str] = {}
        self._hooked: set[str] = set()
        self._asked = anyio.Event()
        self.busy = False

    def heard(self, event: ev.AnyEvent) -> None:
        """A listener of the ledger: keeps the list of workspaces, and looks again when an issue goes."""
        match event:
            case ev.WorkspaceMade():
                self._hooked.discard(event.key)
                self._workspaces[event.key] = WorkspaceRow(
                    event.key, event.issue_id, event.identifier, event.path, event.at
                )
            case ev.WorkspaceGone():
                self._workspaces.pop(event.key, None)
                self._hooked.discard(event.key)
                self._said.pop(event.key, None)
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
        """Whatever goes wrong here is a note, said once: agents at work do not depend on it."""
        for step in (self._prune, self._remove_the_rest, self._remove_done):
            try:
                await step()
            except Exception as error:
                self._say_once(step.__name__, "clean-up failed", str(error) or repr(error))

    async def _remove_done(self) -> None:
        schedule = self._services.ledger.schedule
        idle = [row for row in self._workspaces.values() if row.issue_id not in schedule.running]
        states = await self._states(idle)
        self._unpark_done(idle, states)
        for row in idle:
            if schedule.policy.is_terminal(states.get(row.issue_id, "")) and row.issue_id not in schedule.running:
                with suppress(anyio.WouldBlock), self._services.occupancy.by_removal(row.key):
                    await self._remove(row, states[row.issue_id])
                await self._remove_the_rest()

    async def _states(self, rows: list[WorkspaceRow]) -> dict[str, str]:
        """Empty where the tracker does not answer, which the tick reports: nothing is removed on a guess."""
        if not rows:
            return {}
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                return await self._services.tracker.fetch_states([row.issue_id for row in rows])
        except (TrackerError, TimeoutError):
            return {}

    def _unpark_done(self, rows: list[WorkspaceRow], states: dict[str, str]) -> None:
        """A parked issue that vanished and came back as done is no candidate any more; nobody else would notice."""
        schedule, now = self._services.ledger.schedule, self._services.clock.now()
        for row in rows:
            state = states.get(row.issue_id, "")
            if row.issue_id in schedule.parked and schedule.policy.is_terminal(state):
                why = f"the issue moved to {state}"
                freed = ev.Unparked(at=now, issue_id=row.issue_id, identifier=row.identifier, why=why)
                self._services.ledger.post(freed)

    async def _remove(self, row: WorkspaceRow, state: str) -> None:
        try:
            archive = await self._archive(row, state)
        except _Wanted:
            self._hooked.discard(row.key)
            return
        except (SortieError, OSError) as error:
            self._say_once(row.key, "the workspace was kept", str(error), row)
            return
        with anyio.CancelScope(shield=True):  # a run that waits for us must find what is true
            await self._services.ledger.record(
                ev.WorkspaceGone(
                    at=self._services.clock.now(), issue_id=row.issue_id, key=row.key, archive=str(archive or "")
                )
            )

    async def _archive(self, row: WorkspaceRow, state: str) -> Path | None:
        """Only below our own root, and only the directory that was recorded; anything else stays as it is."""
        root = self._services.root
        root.verify()
        made = await self._services.ledger.store.read(partial(workspace_made, key=row.key))
        path = workspace_of(root.path, row.key, Known(made.inode, used=True) if made else None)
        if path is None:
            if Path(row.path).is_dir():
                raise WorkspaceError(
                    f"The workspace {row.path} is not below {root.path}, where the workspaces are now.",
                    fix="Remove it by hand when you need it no more.",
                )
            return None
        await self._before_remove(row, path, state)
        await self._confirm(row)
        return await to_thread.run_sync(
            archive_workspace,
            root.path,
            row.key,
            archive_directory(self._services.workflow.config.db_path),
            row.identifier,
            from_thread.check_cancelled,
            partial(from_thread.run, self._confirm, row),
        )

    async def _confirm(self, row: WorkspaceRow) -> None:
        schedule = self._services.ledger.schedule
        state = (await self._states([row])).get(row.issue_id, "")
        if row.issue_id in schedule.running or not schedule.policy.is_terminal(state):
            raise _Wanted

    async def _before_remove(self, row: WorkspaceRow, path: Path, state: str) -> None:
        """Once for each removal, however often that is tried. Its failure is a note: an archive follows."""
        config = self._services.workflow.config
        if not config.hooks.before_remove or row.key in self._hooked:
            return
        self._hooked.add(row.key)
        issue = Issue(id=row.issue_id, identifier=row.identifier, title="", state=state)
        run_id = f"remove-{row.key}"
        with await to_thread.run_sync(open_existing, path) as workspace:
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

    async def _prune(self) -> None:
        config, clock = self._services.workflow.config, self._services.clock
        now = clock.on_calendar(clock.now())  # as the times of files are
        days = config.workspace.archive_keep_days
        await to_thread.run_sync(prune, archive_directory(config.db_path), days, now)
        await to_thread.run_sync(prune_logs, logs_directory(config.db_path), days, now)

    async def _remove_the_rest(self) -> None:
        root = self._services.root
        root.verify()
        for problem in await to_thread.run_sync(remove_archived, root.path, from_thread.check_cancelled):
            self._say_once(problem.message, "what is left of a workspace was kept", str(problem))

    def _say_once(self, what: str, message: str, detail: str, row: WorkspaceRow | None = None) -> None:
        """Not with every try."""
        if self._said.get(what) != detail:
            self._note(row, message, detail)
        self._said[what] = detail

    def _note(self, row: WorkspaceRow | None, message: str, detail: str) -> None:
        self._services.ledger.post(
            ev.Noted(
                at=self._services.clock.now(),
                issue_id=row.issue_id if row else "",
                level="warning",
                message=message,
                detail=self._services.redactor.text(detail),
            )
        )
