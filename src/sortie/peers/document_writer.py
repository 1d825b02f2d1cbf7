"""Writes to a document that are in its journal first, and what becomes of one whose writer died.

An append that was journaled is finished, whatever part of it had got into the document. A rewrite happens in one
step or not at all; one that did not is taken out of the journal again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..errors import SortieError
from ..protocol.changing_places import (
    Identity,
    Version,
    identity_of,
    is_beside,
    put_back,
    replace,
    wait_for_writers,
)
from .document_file import NO_FILE, WRITERS_PATIENCE, DocumentFile, FileStamp, stamp_from
from .journal import Journal, Line, Record
from .lost_text import normal, occurrences
from .state_file import problem_of

_TRIES = 20


class Written(Struct, frozen=True):
    """The stamps that the document had before a write and after it: nobody else wrote between the two."""

    before: FileStamp
    after: FileStamp


# Others wrote at the same time, and what they did nobody has looked at.
_AMONG_OTHERS = Written(NO_FILE, NO_FILE)


class DocumentWriter:
    """For the holder of the document's lock."""

    def __init__(self, file: DocumentFile, journal: Journal) -> None:
        self._file = file
        self._journal = journal

    def append(
        self, record: Record, *, op: Literal["append", "create"] = "append", of: tuple[int, ...] = ()
    ) -> Written:
        """Put the text of the record, in the document's manner, at its end. `of` are the lines it repeats."""
        for _ in range(_TRIES):
            end = self._file.end()
            lead = "\n" if end.in_midline else ""
            line = Line(op=op, record=record, offset=end.stamp.size, lead=lead, crlf=end.crlf, of=of)
            position, data = self._journal.append(line), line.written()
            try:
                stamp = self._file.write_at_end(data, end.stamp.size)
            except SortieError:
                self._withdraw(position, line)
                raise
            if stamp is not None and stamp.inode == end.stamp.inode and stamp.size == end.stamp.size + len(data):
                return Written(end.stamp, stamp)
            if stamp is not None or self._has_after_all(record):
                return _AMONG_OTHERS
            self._journal.drop(position)
        raise self._restless()

    def rewrite(self, edit: Callable[[bytes], bytes], record: Record) -> Written:
        """Replace the content by what `edit` makes of it; it is asked again when somebody else wrote in between."""
        self._remove_leftovers()
        for _ in range(_TRIES):
            self._file.let_writers_finish()
            before = self._file.version()
            base = stamp_from(before.status)
            assert before.raw is not None
            try:
                after = edit(before.raw)
            except SortieError:
                if self._file.stamp() == base:
                    raise
                continue
            if after == before.raw:
                self._journal.append(Line(op="note", record=record))
                return Written(base, base)
            if (replaced := self._replace(before, after, record)) is not None:
                return Written(base, replaced)
        raise self._restless()

    def finish(self, position: int, line: Line) -> None:
        """Bring to its end what is the last line of the journal: its writer may have died at any moment."""
        try:
            if line.op in ("append", "create"):
                self._finish_append(position, line)
            elif line.op == "rewrite":
                self._finish_rewrite(position, line)
        except OSError as error:
            raise problem_of(self._file.path, error) from error

    def _replace(self, before: Version, after: bytes, record: Record) -> FileStamp | None:
        start = self._journal.size
        pending: list[Line] = []

        def on_record(beside: Path, ours: Identity) -> None:
            base = before.stamp.identity
            pending.append(Line(op="rewrite", record=record, base=base, inode=ours[1], beside=beside.name))
            self._journal.append(pending[0])

        try:
            stamp = replace(self._file.path, before, after, before_swap=on_record, patience=WRITERS_PATIENCE)
        except OSError as error:
            for line in pending:
                self.finish(start, line)
            raise problem_of(self._file.path, error) from error
        if stamp is None:
            self._journal.drop(start)
            return None
        _, inode, size, modified_ns = stamp.identity
        return FileStamp(inode, size, modified_ns, stamp.changed_ns)

    def _finish_append(self, position: int, line: Line) -> None:
        assert line.record is not None
        if self._file.stamp() == NO_FILE:
            self._journal.drop(position)
            return
        data = line.written()
        there, size = self._file.part(line.offset, len(data))
        if there == data:
            return
        is_begun = data.startswith(there) and size == line.offset + len(there)
        if is_begun and self._file.write_at_end(data[len(there) :], size) is not None:
            return
        if not self._has(line.record):
            self._journal.drop(position)
            self.append(line.record, op="create" if line.op == "create" else "append", of=line.of)

    def _finish_rewrite(self, position: int, line: Line) -> None:
        assert line.record is not None
        in_place = self._file.stamp().inode == line.inode
        if is_beside(self._file.path, line.beside):
            beside = self._file.path.with_name(line.beside)
            with suppress(FileNotFoundError):
                if in_place and self._is_of_another(beside, line):
                    put_back(beside, self._file.path, identity_of(self._file.path.lstat()))
                    in_place = False
                beside.unlink()
        if not in_place and not (line.record.text and self._has(line.record)):
            self._journal.drop(position)

    def _is_of_another(self, displaced: Path, line: Line) -> bool:
        """Whether what our version took the place of is not the one that it was made from."""
        wait_for_writers(displaced, WRITERS_PATIENCE)
        return identity_of(displaced.lstat()) != line.base

    def _withdraw(self, position: int, line: Line) -> None:
        """Take back what could not be written. Where a part of it stays in the document, it is finished later."""
        data = line.written()
        there, _ = self._file.part(line.offset, len(data))
        if not there or not data.startswith(there):
            self._journal.drop(position)

    def _remove_leftovers(self) -> None:
        """New versions of writers that died before they were on record. We hold the lock, so nobody needs them."""
        parent = self._file.path.parent
        with suppress(OSError):
            for name in os.listdir(parent):  # noqa: PTH208 - names are all we need
                if is_beside(self._file.path, name):
                    (parent / name).unlink(missing_ok=True)

    def _has_after_all(self, record: Record) -> bool:
        """Somebody saved while we wrote: their version may or may not have what we wrote."""
        self._file.let_writers_finish()
        return self._has(record)

    def _has(self, record: Record) -> bool:
        return any(occurrences([normal(record.text.encode())], self._file.read()).values())

    def _restless(self) -> SortieError:
        return SortieError(
            f"{self._file.path} was changed by another program {_TRIES} times while it was being written.",
            fix="Let that program write less often.",
        )
