"""The issue file as this process knows it: one table that is kept in step with the file, and its one writer.

An unchanged file costs a stat. Changes of ours that wait for each other are written together, and put into the
table as they are into the file, so neither is read again. Other processes of ours are kept out by a lock on a file
beside it; programs that know nothing of the lock are dealt with by `file_disk.rewrite`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
from msgspec import Struct

from ..errors import TrackerError
from ..protocol.changing_places import Identity, Stamp, Version, identity_of
from .file_disk import in_thread, locked, read, rewrite, sentence
from .file_edits import Before, Change, Draft, RecentChanges
from .file_table import Table

LOCK_DEADLINE = 10.0
HALF_WRITTEN_PAUSE = 0.05


class _Repair(Struct, frozen=True):
    """Make those changes to an issue again that another program dropped."""

    issue_id: str


class _Pending:
    """Something that waits to be written, and what became of it."""

    def __init__(self, order: Change | _Repair) -> None:
        self.order = order
        self.done = False
        self.error: TrackerError | None = None


class _Batch:
    """One write: the table that was known when it began, and what its thread leaves for the event loop."""

    def __init__(self, known: Table | None) -> None:
        self.known = known
        self.table = known
        self.stamp: Stamp | None = None
        # What the file is about to be, as long as readers may go by the table that they have.
        self.expected: Identity | None = None
        self.texts: dict[int, bytes] = {}
        self.made: list[tuple[Change, Before]] = []


def read_table(
    path: Path, is_active: Callable[[str], bool], known: Table | None = None, stamp: Stamp | None = None
) -> tuple[Table, Stamp]:
    """What the file says now; `known` is what it said when it bore that `stamp`."""
    version = read(path, stamp)
    try:
        return _parsed(path, is_active, version, known), version.stamp
    except TrackerError:
        # An editor may have been in the middle of writing; if so, the file has changed by now.
        if version.stamp.shows(path.stat()):
            raise
        version = read(path)
        return _parsed(path, is_active, version, known), version.stamp


def _parsed(path: Path, is_active: Callable[[str], bool], version: Version, known: Table | None) -> Table:
    assert version.raw is not None
    if known is not None and version.raw == known.text():
        return known
    return Table(version.raw, str(path), is_active, known)


class IssueFile:
    def __init__(self, path: Path, is_active: Callable[[str], bool], lock_deadline: float = LOCK_DEADLINE) -> None:
        self._path = path
        self._is_active = is_active
        self._lock_deadline = lock_deadline
        self._table: Table | None = None
        self._stamp: Stamp | None = None
        self._changed: set[str] | None = None
        self._reading = anyio.Lock()
        self.revision = 0  # another number whenever the table says something else
        # How often another's version was taken over, and up to which of them our changes are known to be there.
        self._taken_over = 0
        self._checked = 0
        self._waiting: list[_Pending] = []
        self._turn = anyio.Lock()
        self._writing: _Batch | None = None
        self._recent = RecentChanges()

    async def table(self) -> Table:
        """What the file says now, with every change of ours; of use until the next await."""
        table = self._unchanged() or await self._newest()
        if self._checked == self._taken_over:
            return table
        version = self._taken_over
        if damaged := self._recent.damaged(table.issues):
            await self._submit([_Repair(issue_id) for issue_id in damaged])
            table = self._unchanged() or await self._newest()
        self._checked = max(self._checked, version)
        return table

    def take_changed(self) -> frozenset[str] | None:
        """The issues that differ from the last time this was asked; None the first time."""
        changed, self._changed = self._changed, set()
        return None if changed is None else frozenset(changed)

    async def write(self, change: Change) -> None:
        """Returns when the change is on disk. Whoever gets to write first writes for all who wait."""
        await self._submit([change])

    def _unchanged(self) -> Table | None:
        """The table, if the file is as it was: one stat, quicker than a thread could begin."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 - the time of an unchanged file is spent here
        except OSError as error:
            raise sentence(self._path, error) from error
        if self._stamp is not None and self._stamp.certain and self._stamp.shows(status):
            return self._table
        # A write of ours counts when it has ended.
        ours = self._writing is not None and self._writing.expected == identity_of(status)
        return self._table if ours else None

    async def _newest(self) -> Table:
        async with self._reading:
            table = await self._read_if_changed()
            if table is None:
                async with self._turn:  # no write of ours ends now
                    table = await self._read_if_changed()
            assert table is not None
            return table

    async def _read_if_changed(self) -> Table | None:
        """None if a write of ours ended meanwhile: what was read may be older than what we know."""
        table = self._unchanged()
        if table is None:
            revision, known, stamp = self.revision, self._table, self._stamp
            found = await in_thread(self._path, partial(read_table, self._path, self._is_active, known, stamp))
            if revision != self.revision:
                return None
            self._take_over(*found)
            table = found[0]
        return table

    def _take_over(self, table: Table, stamp: Stamp) -> None:
        if table is not self._table:
            if self._table is not None and self._changed is not None:
                self._changed |= table.differing(self._table)
            self._table = table
            self._taken_over += 1
            self.revision += 1
        self._stamp = stamp

    async def _submit(self, orders: Sequence[Change | _Repair]) -> None:
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
        pending, self._waiting = self._waiting, []
        # Others wait for this batch too: when one of them is cancelled, it is written all the same.
        with anyio.CancelScope(shield=True):
            try:
                self._take_in(await self._write_batch(pending))
            except TrackerError as error:
                for one in pending:
                    one.error = one.error or error
            except BaseException:
                self._waiting = pending + self._waiting  # only the caller hears of it; the others are still to do
                raise
            finally:
                self._writing = None
        for one in pending:
            one.done = True

    async def _write_batch(self, pending: list[_Pending]) -> _Batch:
        target = Path(os.path.realpath(self._path))
        async with locked(target, self._lock_deadline):
            try:
                return await self._apply(target, pending)
            except TrackerError as error:
                if error.kind != TrackerError.PAYLOAD:
                    raise
                # An editor that writes in place may be half done.
                await anyio.sleep(HALF_WRITTEN_PAUSE)
                return await self._apply(target, pending)

    async def _apply(self, target: Path, pending: list[_Pending]) -> _Batch:
        # A thread that the disk held up may end when nobody waits for it any more; it writes to its own batch.
        batch = self._writing = _Batch(self._table)
        known = self._stamp

        def expect(identity: Identity) -> None:
            batch.expected = identity if batch.table is batch.known else None

        def work() -> None:
            edit = partial(self._edit, batch=batch, pending=pending)
            batch.stamp = rewrite(target, edit, known=known, before_swap=expect) or batch.stamp

        await in_thread(target, work)
        return batch

    def _edit(self, before: Version, batch: _Batch, pending: list[_Pending]) -> bytes | None:
        # Every version of the file is edited from scratch, so nothing of an earlier try may stay.
        batch.made.clear()
        batch.stamp = before.stamp
        table = batch.table = (
            batch.known if before.raw is None else _parsed(self._path, self._is_active, before, batch.known)
        )
        assert table is not None
        draft = Draft(table)
        for one in pending:
            one.error = None
            try:
                batch.made.extend(self._apply_one(draft, one.order))
            except TrackerError as error:
                # An issue that has gone meanwhile needs no repair.
                one.error = None if isinstance(one.order, _Repair) else error
        batch.texts = draft.texts
        return draft.text() if draft.texts else None

    def _apply_one(self, draft: Draft, order: Change | _Repair) -> list[tuple[Change, Before]]:
        for lost in self._recent.lost(order.issue_id, draft.look(order.issue_id)):
            draft.apply(lost)
        if isinstance(order, _Repair):
            return []
        before = draft.apply(order)
        return [] if before is None else [(order, before)]

    def _take_in(self, batch: _Batch) -> None:
        """Put what was written into the table too, and remember it."""
        assert batch.table is not None
        assert batch.stamp is not None
        changed = batch.table.update(batch.texts)
        self.revision += bool(batch.texts)
        if self._changed is not None:
            self._changed |= changed
        self._take_over(batch.table, batch.stamp)
        for change, before in batch.made:
            self._recent.remember(change, before)
