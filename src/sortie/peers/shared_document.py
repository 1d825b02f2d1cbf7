"""One markdown file that several processes and people write: everything acknowledged is in it once and whole.

A write of ours is in the journal before it is in the document. Whoever takes the lock next finishes what a dead
writer began, and says what somebody's editor has thrown out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from ..errors import SortieError
from ..protocol.changing_places import Identity, identity_of, put_back, replace, sync_directory
from .document_file import NO_FILE, DocumentFile, FileStamp
from .journal import Journal, Line, Record, lines_of
from .lost_text import missing, occurrences
from .place import make_state_directory, state_directory
from .state_file import locked, open_careful, problem_of

PATIENCE = 30.0
LONGEST_TEXT = 16 * 1024 * 1024
_TRIES = 20


class _Known(Struct, frozen=True, array_like=True):
    """How the last holder left things. It is a shortcut only: without it, everything is looked at."""

    journal: int
    document: FileStamp


class SharedDocument:
    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self.path = path.absolute()
        self._file = DocumentFile(self.path)
        self._patience = patience

    def read(self) -> bytes:
        """The whole content, without the lock."""
        return self._file.read()

    def records(self) -> Iterator[Record]:
        """Every write of ours that is on record, without the lock: the last one may not be in the document yet."""
        for _, line in lines_of(state_directory(self.path.parent) / f"{self.path.name}.journal"):
            if (record := line.public()) is not None:
                yield record

    @contextmanager
    def held(self) -> Iterator[Held]:
        """Nobody else of ours writes meanwhile."""
        with self._held() as held:
            yield held
            held._tell()

    def missing(self) -> tuple[Record, ...]:
        """All that was acknowledged and is not in the document, told before or not."""
        with self._held() as held:
            return tuple(line.record for _, line in held._missing() if line.record is not None)

    def restore(self) -> tuple[Record, ...]:
        """Append what is missing, as what its author wrote."""
        with self._held() as held:
            lost = held._missing()
            for position, line in lost:
                assert line.record is not None
                held._append(line.record, of=(position,))
        return tuple(line.record for _, line in lost if line.record is not None)

    @contextmanager
    def _held(self) -> Iterator[Held]:
        state = make_state_directory(self.path.parent)
        with locked(state / f"{self.path.name}.lock", self._patience):
            journal = Journal(state / f"{self.path.name}.journal")
            try:
                held = Held(self._file, journal, state / f"{self.path.name}.stamp")
                held._catch_up()
                yield held
            finally:
                journal.close()


class Held:
    """The document while we hold its lock. `lost` was acknowledged earlier and is gone, and nobody was told yet."""

    def __init__(self, file: DocumentFile, journal: Journal, stamp_file: Path) -> None:
        self._file = file
        self._journal = journal
        self._stamp_file = stamp_file
        self._untold: list[tuple[int, Line]] = []
        self.lost: tuple[Record, ...] = ()

    def read(self) -> bytes:
        return self._file.read()

    def append(self, text: bytes, record: Record) -> None:
        """Put LF text at the end; durable when it returns. The cost does not depend on the size of the file."""
        if len(text) > LONGEST_TEXT:
            raise SortieError(f"A text of more than {LONGEST_TEXT // 1024**2} MiB does not belong into a document.")
        try:
            content = text.replace(b"\r\n", b"\n").decode()
        except UnicodeDecodeError as error:
            raise SortieError("The text is not UTF-8.", fix="Give it as plain text.") from error
        if not content.endswith("\n"):
            content += "\n"
        self._append(msgspec.structs.replace(record, text=content))

    def create(self, content: bytes, record: Record) -> None:
        """Make the document, where there is none."""
        self._file.make_empty()
        sync_directory(self._file.path.parent)
        self._append(msgspec.structs.replace(record, text=content.decode()), op_create=True)

    def note(self, record: Record) -> None:
        """Put on record what was found in the document; it stays as it is."""
        stamp = self._file.stamp()
        self._journal.append(Line(op="note", record=record))
        self._remember(stamp)

    def done(self, key: str) -> bool:
        """Whether a write with this key is on record."""
        return any(line.record is not None and line.record.key == key for _, line in self._journal.lines())

    def rewrite(self, edit: Callable[[bytes], bytes], record: Record) -> None:
        """Replace the content by what `edit` makes of it; it is asked again when somebody else wrote in between."""
        for _ in range(_TRIES):
            before = self._file.version()
            assert before.raw is not None
            try:
                after = edit(before.raw)
            except SortieError:
                if before.stamp.shows(self._file.path.lstat()):
                    raise
                continue
            if after == before.raw:
                self.note(record)
                return
            start = self._journal.size

            def on_record(beside: Path, ours: Identity, base: Identity = before.stamp.identity) -> None:
                line = Line(op="rewrite", record=record, base=base, inode=ours[1], beside=beside.name)
                self._journal.append(line)

            try:
                replaced = replace(self._file.path, before, after, before_swap=on_record)
            except OSError as error:
                self._journal.drop(start)
                raise problem_of(self._file.path, error) from error
            if replaced is not None:
                self._remember(self._file.stamp())
                return
            self._journal.drop(start)
        raise self._restless()

    def _append(self, record: Record, *, op_create: bool = False, of: tuple[int, ...] = ()) -> None:
        for _ in range(_TRIES):
            end = self._file.end()
            line = Line(
                op="create" if op_create else "append",
                record=record,
                offset=end.size,
                lead="\n" if end.in_midline else "",
                crlf=end.crlf,
                of=of,
            )
            position = self._journal.append(line)
            try:
                stamp = self._file.write_at_end(line.written(), end.size)
            except SortieError:
                self._journal.drop(position)
                raise
            if stamp is None and self._has(record):
                stamp = self._file.stamp()
            if stamp is not None:
                self._remember(stamp)
                return
            self._journal.drop(position)
        raise self._restless()

    def _catch_up(self) -> None:
        """Finish or drop what a dead writer left, and find out what others have thrown out."""
        known, stamp = self._last_known(), self._file.stamp()
        if known is not None and known.journal == self._journal.size and known.document == stamp:
            return
        self._journal.drop_torn_end()
        start = known.journal if known is not None and known.journal <= self._journal.size else 0
        last = None
        for last in self._journal.lines(start):  # noqa: B007 - the last one is what we want
            pass
        if last is not None:
            self._finish(*last)
        if known is None or known.document != stamp:
            told = {position for _, line in self._journal.lines() if line.op == "told" for position in line.of}
            self._untold = [(position, line) for position, line in self._missing() if position not in told]
            self.lost = tuple(line.record for _, line in self._untold if line.record is not None)
        self._remember(self._file.stamp())

    def _finish(self, position: int, line: Line) -> None:
        if line.op in ("append", "create"):
            self._finish_append(position, line)
        elif line.op == "rewrite":
            self._finish_rewrite(position, line)

    def _finish_append(self, position: int, line: Line) -> None:
        assert line.record is not None
        if self._file.stamp() == NO_FILE:
            self._journal.drop(position)
            return
        data = line.written()
        there, size = self._file.part(line.offset, len(data))
        if there == data:
            return
        if data.startswith(there) and size == line.offset + len(there):
            if self._file.write_at_end(data[len(there) :], size) is not None:
                return
        elif self._has(line.record):
            return
        self._journal.drop(position)
        self._append(line.record, op_create=line.op == "create", of=line.of)

    def _finish_rewrite(self, position: int, line: Line) -> None:
        path, beside = self._file.path, self._file.path.with_name(line.beside)
        in_place = self._file.stamp().inode == line.inode
        if in_place and beside.exists():
            displaced = beside.lstat()
            if identity_of(displaced) != line.base and displaced.st_ino != line.inode:
                put_back(beside, path, identity_of(path.lstat()))
                in_place = False
        beside.unlink(missing_ok=True)
        assert line.record is not None
        if not in_place and not (line.record.text and self._has(line.record)):
            self._journal.drop(position)

    def _has(self, record: Record) -> bool:
        return any(occurrences([record.text.encode()], self._file.read()).values())

    def _missing(self) -> list[tuple[int, Line]]:
        content = b"" if self._file.stamp() == NO_FILE else self._file.read()
        archive = DocumentFile(self._file.path.with_name(f"{self._file.path.stem}_ARCHIVE.md"))
        if archive.stamp() != NO_FILE:
            content += b"\n" + archive.read()
        return missing(self._journal.lines(), content)

    def _tell(self) -> None:
        if self._untold:
            positions = tuple(position for position, _ in self._untold)
            self._untold = []
            stamp = self._file.stamp()
            self._journal.append(Line(op="told", of=positions))
            self._remember(stamp)

    def _last_known(self) -> _Known | None:
        try:
            descriptor, _ = open_careful(self._stamp_file, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return msgspec.json.decode(os.read(descriptor, 4096), type=_Known)
        except msgspec.MsgspecError:
            return None
        finally:
            os.close(descriptor)

    def _remember(self, stamp: FileStamp) -> None:
        """What the next holder may rely on. As long as something lost was not told, it is to look itself."""
        said = b"" if self._untold else msgspec.json.encode(_Known(self._journal.size, stamp))
        descriptor, _ = open_careful(self._stamp_file, os.O_WRONLY | os.O_CREAT)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, said, 0)
        finally:
            os.close(descriptor)

    def _restless(self) -> SortieError:
        return SortieError(
            f"{self._file.path} was changed by another program {_TRIES} times while it was being written.",
            fix="Let that program write less often.",
        )
