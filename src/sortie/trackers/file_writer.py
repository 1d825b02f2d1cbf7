"""The one writer of the issue file in this process. Changes that wait for each other are written together.

Other processes of ours are kept out by a lock on a file beside it; programs that know nothing of the lock are dealt
with by `exchange`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec import Struct

from ..core.model import Issue
from ..errors import TrackerError
from .exchange import rewrite
from .file_disk import in_thread, sentence
from .file_edits import Before, Change, Document
from .file_recent import RecentChanges

LOCK_DEADLINE = 10.0
LOCK_POLL = 0.005
HALF_WRITTEN_PAUSE = 0.05

_Made = tuple[Change, Before]


class _Mend(Struct, frozen=True):
    """Make those changes to an issue again that another program dropped."""

    issue_id: str


class _Pending:
    """Something that waits to be written, and what became of it."""

    def __init__(self, order: Change | _Mend) -> None:
        self.order = order
        self.done = False
        self.before: Before | None = None
        self.error: TrackerError | None = None


class FileWriter:
    def __init__(self, path: Path, lock_deadline: float = LOCK_DEADLINE) -> None:
        self._path = path
        self._lock_deadline = lock_deadline
        self._waiting: list[_Pending] = []
        self._turn = anyio.Lock()
        self._recent = RecentChanges()

    async def write(self, change: Change) -> None:
        """Returns when the change is on disk. Whoever gets to write first writes for all who wait."""
        await self._submit([change])

    async def mend(self, issues: Mapping[str, Issue]) -> bool:
        """Make changes of ours again that are missing in this version of the file; False if none is."""
        damaged = [_Mend(issue_id) for issue_id in self._recent.damaged(issues)]
        if damaged:
            await self._submit(damaged)
        return bool(damaged)

    async def _submit(self, orders: Sequence[Change | _Mend]) -> None:
        mine = [_Pending(order) for order in orders]
        self._waiting += mine
        try:
            async with self._turn:
                if not all(pending.done for pending in mine):
                    await self._write_waiting()
        finally:
            self._waiting = [pending for pending in self._waiting if pending not in mine]
        for pending in mine:
            if pending.error is not None:
                raise pending.error

    async def _write_waiting(self) -> None:
        batch, self._waiting = self._waiting, []
        # Others wait for this batch too: when one of them is cancelled, it is written all the same.
        with anyio.CancelScope(shield=True):
            try:
                made = await self._write_batch(batch)
            except TrackerError as error:
                made = []
                for pending in batch:
                    pending.error = pending.error or error
        for pending in batch:
            pending.done = True
        for change, before in made:
            self._recent.remember(change, before)

    async def _write_batch(self, batch: list[_Pending]) -> list[_Made]:
        target = Path(os.path.realpath(self._path))
        async with _locked(target, self._lock_deadline):
            try:
                return await in_thread(target, lambda: self._apply(target, batch))
            except TrackerError as error:
                if error.kind != TrackerError.PAYLOAD:
                    raise
                # An editor that writes in place may be half done.
                await anyio.sleep(HALF_WRITTEN_PAUSE)
                return await in_thread(target, lambda: self._apply(target, batch))

    def _apply(self, target: Path, batch: list[_Pending]) -> list[_Made]:
        made: list[_Made] = []

        def edit(raw: bytes) -> bytes:
            # Every version of the file is edited from scratch, so nothing of an earlier try may stay.
            made.clear()
            document = Document(raw, str(target))
            for pending in batch:
                pending.error = None
                try:
                    made.extend(self._apply_one(document, pending.order))
                except TrackerError as error:
                    # An issue that has gone meanwhile needs no mending.
                    pending.error = None if isinstance(pending.order, _Mend) else error
            return document.text()

        rewrite(target, edit)
        return made

    def _apply_one(self, document: Document, order: Change | _Mend) -> list[_Made]:
        for lost in self._recent.lost(order.issue_id, document.look(order.issue_id)):
            document.apply(lost)
        if isinstance(order, _Mend):
            return []
        before = document.apply(order)
        return [] if before is None else [(order, before)]


@asynccontextmanager
async def _locked(target: Path, deadline: float) -> AsyncIterator[None]:
    """Hold `<target>.lock`. The lock file stays: removing it would let two processes lock two different files."""
    try:
        descriptor = os.open(
            f"{target}.lock", os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644
        )
    except OSError as error:
        raise sentence(target.with_name(f"{target.name}.lock"), error) from error
    try:
        with anyio.move_on_after(deadline) as waiting:
            while not _try_lock(descriptor):  # noqa: ASYNC110 - another process cannot tell us
                await anyio.sleep(LOCK_POLL)
        if waiting.cancelled_caught:
            raise TrackerError(
                TrackerError.TRANSPORT,
                f"Another process has held {target}.lock for {deadline:g} seconds.",
                fix=f"Find it with `fuser {target}.lock` and end it.",
            )
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
