"""The one thread that writes: whatever waits is committed together, each job whole or not at all.

A caller is answered after the commit, never before. One sync to disk serves all that wait at that moment, and a
job that fails is undone alone.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from ..errors import StoreError
from .sqlite_errors import explain
from .tables import Change, write

# Bounds how long the first of a batch waits for the last.
_MOST_JOBS = 1000


Write = Callable[[sqlite3.Connection], None]


class _Job(NamedTuple):
    work: Write
    answer: asyncio.Future[None]


class Writer:
    """Owns the connection until `close`; `append` belongs to the event loop in which the writer was made."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="sortie-store-writer", daemon=True)
        self._thread.start()

    async def append(self, changes: tuple[Change, ...]) -> None:
        """Return when all of the changes are on disk, raise when none is. Cancelling does not take them back."""
        await self.do(partial(write, changes=changes))

    async def do(self, work: Write) -> None:
        """The same for anything else that is written."""
        if self._closed:
            raise StoreError(f"{self._path} is closed.")
        answer = self._loop.create_future()
        self._jobs.put(_Job(work, answer))
        await answer

    def close(self) -> None:
        """Commit what waits, then end the thread."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            failures = self._commit(batch)
            try:
                self._loop.call_soon_threadsafe(_answer, batch, failures)
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more, and what was asked for is on disk

    def _next_batch(self) -> list[_Job]:
        """Everything that waits now, at least one job; empty when the writer is closed."""
        batch: list[_Job] = []
        try:
            job = self._jobs.get()
            while job is not None:
                batch.append(job)
                if len(batch) == _MOST_JOBS:
                    return batch
                job = self._jobs.get_nowait()
        except Empty:
            return batch
        if batch:
            self._jobs.put(None)  # closing comes after this last batch
        return batch

    def _commit(self, batch: list[_Job]) -> list[Exception | None]:
        """Write the batch in one transaction and tell for each job why it is not in it."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            failures = [self._attempt(job.work) for job in batch]
            self._connection.execute("COMMIT")
        except Exception as error:
            if self._connection.in_transaction:  # after some failures SQLite has ended it already
                self._connection.execute("ROLLBACK")
            return [self._explained(error) for _ in batch]
        return failures

    def _attempt(self, work: Write) -> Exception | None:
        self._connection.execute("SAVEPOINT job")
        try:
            work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # a full disk makes SQLite give up the whole transaction, not just this job
            self._connection.execute("ROLLBACK TO job")
            self._connection.execute("RELEASE job")
            return self._explained(error)
        self._connection.execute("RELEASE job")
        return None

    def _explained(self, error: Exception) -> Exception:
        return explain(error, self._path) if isinstance(error, sqlite3.Error) else error


def _answer(batch: list[_Job], failures: list[Exception | None]) -> None:
    for job, failure in zip(batch, failures, strict=True):
        if job.answer.done():
            continue  # the caller was cancelled in the meantime
        if failure is None:
            job.answer.set_result(None)
        else:
            job.answer.set_exception(failure)
