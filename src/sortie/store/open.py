"""The store as the engine holds it: locked, migrated, one writer, one reader, closed in the right order."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread

from ..core.events import AnyEvent
from . import lock
from .connect import connect_readonly, connect_writer
from .faults import explain
from .migrate import migrate
from .writer import Writer

T = TypeVar("T")


class Store:
    def __init__(self, path: Path, store_id: str, writer: Writer, reader: sqlite3.Connection) -> None:
        self.path = path
        self.store_id = store_id
        self._writer = writer
        self._reader = reader
        self._reading = anyio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, holder: Mapping[str, Any]) -> AsyncIterator[Self]:
        """Own the store at `path` until the block ends; `holder` is what others are told about its owner."""
        path = path.resolve()
        held = ExitStack()
        try:
            connection, reader = await anyio.to_thread.run_sync(_acquire, held, path, holder)
            (store_id,) = reader.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()
            writer = Writer(connection, path)
            held.callback(writer.close)
            yield cls(path, store_id, writer, reader)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(held.close)

    async def append(self, *events: AnyEvent) -> None:
        """Commit these events, and what follows from them, together; return when they are on disk."""
        if events:
            await self._writer.append(events)

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Ask the database something from `sortie.store.reading`, without stopping the event loop."""
        async with self._reading:
            try:
                return await anyio.to_thread.run_sync(question, self._reader)
            except sqlite3.Error as error:
                raise explain(error, self.path) from error


def _acquire(
    held: ExitStack, path: Path, holder: Mapping[str, Any]
) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    held.enter_context(lock.held(path, holder))
    connection = held.enter_context(closing(connect_writer(path)))
    migrate(connection, path)
    reader = held.enter_context(closing(connect_readonly(path)))
    return connection, reader
