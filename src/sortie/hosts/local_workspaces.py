"""The workspaces of this machine: who is in one, and how those that nobody needs are archived and removed.

A removal takes its time, and people change their minds: it gives way to a run that wants the workspace, and asks
once more before anything is removed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio import from_thread, to_thread

from ..errors import SortieError, WorkspaceError
from ..runs.environment import run_environment
from ..runs.run_workspace import known_as
from ..workspace.directory import Root, Workspace, open_existing, workspace_key
from ..workspace.hooks import run_hook
from ..workspace.removal import archive_workspace, prune, remove_archived, workspace_of
from .host import Removal, RemovalRefused, Removed

Confirm = Callable[[], Awaitable[bool]]


class Occupancy:
    """By the place of a workspace: one run, or its removal, which gives way to a run for as long as it can."""

    def __init__(self) -> None:
        self._locks: dict[Path, anyio.Lock] = {}
        self._removals: dict[Path, anyio.CancelScope] = {}

    @asynccontextmanager
    async def by_run(self, place: Path) -> AsyncIterator[None]:
        if place in self._removals:
            self._removals[place].cancel()
        lock = self._locks.setdefault(place, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            self._give_up(place, lock)

    @contextmanager
    def by_removal(self, place: Path) -> Iterator[anyio.CancelScope]:
        """Cancelled when a run wants the workspace; raises `anyio.WouldBlock` where one has it."""
        lock = self._locks.setdefault(place, anyio.Lock())
        lock.acquire_nowait()
        try:
            with anyio.CancelScope() as scope:
                self._removals[place] = scope
                yield scope
        finally:
            del self._removals[place]
            lock.release()
            self._give_up(place, lock)

    def _give_up(self, place: Path, lock: anyio.Lock) -> None:
        """A lock that nobody holds or wants is not kept: there are as many workspaces as there were issues."""
        state = lock.statistics()
        if not state.locked and not state.tasks_waiting and self._locks.get(place) is lock:
            del self._locks[place]


class LocalWorkspaces:
    """`_hooked` are those whose removal was tried and failed after their hook had run."""

    def __init__(self, environ: Mapping[str, str], archive: Path) -> None:
        self._environ = environ
        self._archive = archive
        self._occupancy = Occupancy()
        self._roots: dict[str, Root] = {}
        self._hooked: set[Path] = set()

    def used_by_run(self, place: Path) -> AbstractAsyncContextManager[None]:
        self._hooked.discard(place)
        return self._occupancy.by_run(place)

    async def remove(self, removal: Removal, confirm: Confirm) -> Removed:
        if removal.workspace.kind == "shared checkout":
            raise RemovalRefused(f"{removal.workspace.root} is not ours to remove.")
        key = removal.workspace.key or workspace_key(removal.issue.identifier)
        place = Path(removal.workspace.root, key)
        try:
            with self._occupancy.by_removal(place) as scope:
                return await self._remove(removal, key, place, confirm)
        except anyio.WouldBlock:
            raise RemovalRefused(f"A run works in {place}.") from None
        except RemovalRefused:
            self._hooked.discard(place)
            raise
        assert scope.cancelled_caught
        raise RemovalRefused(f"A run wants {place}.")

    async def _remove(self, removal: Removal, key: str, place: Path, confirm: Confirm) -> Removed:
        """Only below its own root, and only the directory that was recorded; anything else stays as it is."""
        root, known = self._root(removal.workspace.root), removal.workspace.known
        root.verify()
        path = workspace_of(root.path, key, known_as(known, removal.issue, root.path))
        if path is None:
            if known and Path(known.path).is_dir():
                raise WorkspaceError(
                    f"The workspace {known.path} is not below {root.path}, where the workspaces are now.",
                    fix="Remove it by hand when you need it no more.",
                )
            return Removed()
        problems = await self._before_remove(removal, path, place)

        async def confirmed() -> None:
            if not await confirm():
                raise RemovalRefused(f"{removal.issue.identifier} is not done any more.")

        await confirmed()
        archive = await to_thread.run_sync(
            archive_workspace,
            root.path,
            key,
            self._archive,
            removal.issue.identifier,
            from_thread.check_cancelled,
            partial(from_thread.run, confirmed),
        )
        self._hooked.discard(place)
        kept = await to_thread.run_sync(remove_archived, root.path, from_thread.check_cancelled)
        return Removed(archive=str(archive or ""), problems=problems, leftovers=tuple(map(str, kept)))

    async def _before_remove(self, removal: Removal, path: Path, place: Path) -> tuple[str, ...]:
        """Once for each removal, however often that is tried. Its failure is a remark: an archive follows."""
        if not removal.before_remove or place in self._hooked:
            return ()
        self._hooked.add(place)
        with await to_thread.run_sync(open_existing, path) as workspace:
            try:
                await self._run_hook(removal, workspace)
            except SortieError as error:
                return (f"before_remove failed: {error}",)
        return ()

    async def _run_hook(self, removal: Removal, workspace: Workspace) -> None:
        run_id = f"remove-{workspace.key}"
        await run_hook(
            "before_remove",
            removal.before_remove,
            workspace=workspace.path,
            workspace_fd=workspace.fd,
            env=run_environment(
                self._environ,
                extra_names=removal.environment,
                store_id=removal.store_id,
                run_id=run_id,
                issue=removal.issue,
                workspace=workspace.path,
                attempt=removal.attempt,
            ),
            run_id=run_id,
            timeout=removal.hook_timeout,
            on_line=lambda _: None,
        )

    async def tidy(self, root: str, keep_days: float) -> Sequence[str]:
        kept = self._root(root)
        kept.verify()
        await to_thread.run_sync(prune, self._archive, keep_days, time.time())
        problems = await to_thread.run_sync(remove_archived, kept.path, from_thread.check_cancelled)
        return [str(problem) for problem in problems]

    def _root(self, root: str) -> Root:
        """As it was when it was first seen."""
        if root not in self._roots:
            self._roots[root] = Root(Path(root))
        return self._roots[root]
