"""The store as the engine holds it: locked, migrated, one writer, one reader, closed in the right order."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread

from ..core.events import AnyEvent
from ..errors import StoreError, StoreLost
from . import lock
from .call_use import CallFigures, write_call_figures
from .connect import connect_readonly, connect_writer, migrate
from .counters import Counts
from .load import Loaded, load
from .loss import OpenFiles
from .queries import store_id
from .sqlite_errors import explained, is_ruined
from .tables import Change, apply
from .writer import Writer

T = TypeVar("T")


class Store:
    """`schedule` is the scheduling state: what the tables hold, with everything that was applied since.

    `unreadable` has a sentence for each row that could not be understood. `loss` says what happened to the files
    since they were opened, as far as `is_lost` has looked.
    """

    def __init__(
        self, path: Path, loaded: Loaded, writer: Writer, reader: sqlite3.Connection, watcher: sqlite3.Connection
    ) -> None:
        self.path = path
        self.store_id = store_id(reader)
        self.schedule = loaded.schedule
        self.unreadable = loaded.unreadable
        self.loss = ""
        self._files = OpenFiles(path)
        self._writer = writer
        self._reader = reader
        self._watcher = watcher
        self._reading = anyio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, *, holder: Mapping[str, Any], root: Path | None = None, workflow: Path | None = None
    ) -> AsyncIterator[Self]:
        """Own the store at `path` until the block ends; `holder` is what others are told about its owner.

        Whoever is going to run agents owns the `workflow` and the `root` of its workspaces too: two stores must not
        share them.
        """
        path = path.resolve()
        held = ExitStack()
        try:
            connection, reader, watcher = await anyio.to_thread.run_sync(
                _acquire, held, path, holder, root, workflow
            )
            with explained(path):
                loaded = await anyio.to_thread.run_sync(load, reader)
            writer = Writer(connection, path)
            held.callback(writer.close)
            yield cls(path, loaded, writer, reader, watcher)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(held.close)

    def is_lost(self) -> bool:
        """Whether one of its files is not at its path any more: what is written now will not be found there.

        Cheap enough to ask several times a second.
        """
        self.loss = self.loss or self._files.loss()
        return bool(self.loss)

    async def lost(self) -> StoreLost:
        """The error to end with after `is_lost`; what the store held is saved first."""
        return await self.read(partial(self._files.explain, self.loss))

    def apply(self, event: AnyEvent) -> Change:
        """Make the event part of the schedule; `write` has to follow, in the same order."""
        return apply(self.schedule, event)

    async def write(self, changes: Sequence[Change]) -> None:
        """Commit these changes together; return when they are on disk."""
        if changes:
            with self._ruin_noticed():
                await self._writer.append(tuple(changes))

    async def keep_call_figures(self, figures: CallFigures) -> None:
        """In place of the last ones."""
        with self._ruin_noticed():
            await self._writer.do(partial(write_call_figures, figures=figures))

    async def add_counts(self, counts: Counts) -> None:
        """To what was counted before; cancelling does not take them back."""
        with self._ruin_noticed():
            await self._writer.do(counts.write)

    async def append(self, *events: AnyEvent) -> None:
        """Apply these events and commit them together; return when they are on disk."""
        await self.write([self.apply(event) for event in events])

    def version(self) -> int:
        """Another number after every commit, whoever made it; read from shared memory."""
        try:
            (number,) = self._watcher.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return -1
        return int(number)

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Ask the database something from `sortie.store.queries`, without stopping the event loop."""
        async with self._reading:
            with self._ruin_noticed(), explained(self.path):
                return await anyio.to_thread.run_sync(question, self._reader)

    @contextmanager
    def _ruin_noticed(self) -> Iterator[None]:
        """A database that is broken is as good as gone."""
        try:
            yield
        except StoreError as error:
            if is_ruined(error):
                self.loss = self.loss or self._files.loss() or f"{self.path} was damaged"
            raise


def _acquire(
    held: ExitStack, path: Path, holder: Mapping[str, Any], root: Path | None, workflow: Path | None
) -> tuple[sqlite3.Connection, sqlite3.Connection, sqlite3.Connection]:
    held.enter_context(lock.held(path, holder))
    if workflow is not None:
        held.enter_context(lock.workflow_held(workflow, {**holder, "store": str(path)}))
    if root is not None:
        held.enter_context(lock.root_held(root, {**holder, "store": str(path)}))
    connection = held.enter_context(closing(connect_writer(path)))
    held.callback(_bring_home, connection)
    migrate(connection, path)
    _settle_in(connection, path)
    reader = held.enter_context(closing(connect_readonly(path)))
    watcher = held.enter_context(closing(connect_readonly(path)))
    return connection, reader, watcher


def _settle_in(connection: sqlite3.Connection, path: Path) -> None:
    """Note where the store is. A copy of a store that is still there is another one: it has no share in what the
    original runs, neither its processes nor its workspaces."""
    noted = connection.execute("SELECT value FROM meta WHERE key = 'home'").fetchone()
    if noted == (str(path),):
        return
    connection.execute("BEGIN IMMEDIATE")
    if noted and _is_copy(connection, Path(noted[0]), path):
        connection.execute("UPDATE meta SET value = lower(hex(randomblob(16))) WHERE key = 'store_id'")
        connection.execute("UPDATE claims SET pid = NULL, start_ticks = NULL, boot_id = NULL, workspace = ''")
        connection.execute("DELETE FROM workspaces")
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('home', ?)", (str(path),))
    connection.execute("COMMIT")


def _is_copy(connection: sqlite3.Connection, home: Path, path: Path) -> bool:
    try:
        if home.samefile(path):
            return False
        with closing(connect_readonly(home)) as original:
            return store_id(original) == store_id(connection)
    except (OSError, StoreError, sqlite3.Error):
        return False  # it was moved, or something else is there now


def _bring_home(connection: sqlite3.Connection) -> None:
    # Closing does this only where nobody else has the file open, and nobody finds a log that was deleted.
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint")
