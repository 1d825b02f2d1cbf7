"""One markdown file that several processes and people write: everything acknowledged is in it once and whole.

A write of ours is in the journal before it is in the document. Whoever takes the lock next finishes what a dead
writer began, and says what somebody's editor has thrown out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ..errors import SortieError
from .document_file import NO_FILE, DocumentFile, FileStamp
from .document_writer import DocumentWriter, Written
from .journal import Journal, Line, Record, lines_of
from .lost_text import Missing, missing
from .place import make_state_directory, state_directory
from .state_file import locked, open_careful

PATIENCE = 30.0
LONGEST_TEXT = 16 * 1024 * 1024

_UNKNOWN = FileStamp(-1)
_KNOWN_LENGTH = 160


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
        """Nobody else of ours writes meanwhile. What is `lost` counts as told when somebody asked for it and this
        ends well."""
        with self._held() as held:
            yield held
            held._tell()

    def missing(self) -> tuple[Record, ...]:
        """All that was acknowledged and is not in the document, told before or not."""
        with self._held() as held:
            return tuple(one.record for one in held._missing())

    def restore(self) -> tuple[Record, ...]:
        """Append what is missing, as what its author wrote."""
        with self._held() as held:
            return held._restore()

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
        self._writer = DocumentWriter(file, journal)
        self._stamp_file = stamp_file
        self._stamp = _UNKNOWN
        self._untold: list[Missing] = []
        self._is_asked = False

    @property
    def lost(self) -> tuple[Record, ...]:
        """Whoever asks tells people."""
        self._is_asked = True
        return tuple(one.record for one in self._untold)

    def read(self) -> bytes:
        return self._file.read()

    def append(self, text: bytes, record: Record) -> None:
        """Put LF text at the end; durable when it returns. The cost does not depend on the size of the file."""
        content = _text(text)
        if not content.endswith("\n"):
            content += "\n"
        self._wrote(self._writer.append(msgspec.structs.replace(record, text=content)))

    def rewrite(self, edit: Callable[[bytes], bytes], record: Record) -> None:
        """Replace the content by what `edit` makes of it; it is asked again when somebody else wrote in between."""
        self._wrote(self._writer.rewrite(edit, record))

    def create(self, content: bytes, record: Record) -> None:
        """Make the document, where there is none."""
        text = _text(content)
        self._file.make_empty()
        self._wrote(self._writer.append(msgspec.structs.replace(record, text=text), op="create"))

    def note(self, record: Record) -> None:
        """Put on record what was found in the document; it stays as it is."""
        self._journal.append(Line(op="note", record=record))
        self._remember()

    def done(self, key: str) -> bool:
        """Whether a write with this key is on record."""
        return self._journal.has_key(key)

    def _catch_up(self) -> None:
        """Finish or drop what a dead writer left, and find out what others have thrown out."""
        known = self._last_known()
        self._stamp = self._file.stamp()
        if known == _Known(self._journal.size, self._stamp):
            return
        self._file.let_writers_finish()
        is_as_left = known is not None and known.document == self._file.stamp()
        start = known.journal if known is not None and 0 <= known.journal <= self._journal.size else 0
        last = None
        for last in self._journal.lines(start):  # noqa: B007 - the last one is what we want
            pass
        if last is not None:
            self._writer.finish(*last)
        self._stamp = self._file.stamp()
        if not is_as_left:
            self._untold = [one for one in self._missing() if not one.is_told]
        self._remember()

    def _missing(self) -> list[Missing]:
        content = b"" if self._file.stamp() == NO_FILE else self._file.read()
        archive = DocumentFile(self._file.path.with_name(f"{self._file.path.stem}_ARCHIVE.md"))
        with suppress(SortieError):  # there is none, or something that is none
            content += b"\n" + archive.read()
        return missing(self._journal.lines(), content)

    def _restore(self) -> tuple[Record, ...]:
        """In the order in which it was written: what was restored before is on record after what came later."""
        restored = []
        for one in sorted(self._missing(), key=lambda one: (one.record.at, one.position)):
            text = one.record.text.replace("\r\n", "\n").strip("\n")
            record = msgspec.structs.replace(one.record, text=f"\n{text}\n")
            self._wrote(self._writer.append(record, of=(one.position,)))
            restored.append(one.record)
        return tuple(restored)

    def _tell(self) -> None:
        if self._untold and self._is_asked:
            told, self._untold = self._untold, []
            with suppress(SortieError):  # then it is told once more, which is better than to fail what was done
                self._journal.append(Line(op="told", of=tuple(one.position for one in told)))
                self._remember()

    def _last_known(self) -> _Known | None:
        try:
            descriptor, _ = open_careful(self._stamp_file, os.O_RDONLY)
        except (FileNotFoundError, SortieError):
            return None
        try:
            return msgspec.json.decode(os.read(descriptor, _KNOWN_LENGTH), type=_Known)
        except (OSError, msgspec.MsgspecError):
            return None
        finally:
            os.close(descriptor)

    def _wrote(self, written: Written) -> None:
        # What others did while we held the lock nobody has looked at yet.
        self._stamp = written.after if written.before == self._stamp else _UNKNOWN
        self._remember()

    def _remember(self) -> None:
        """What the next holder may rely on. As long as something lost was not told, it is to look itself."""
        known = _Known(self._journal.size, _UNKNOWN if self._untold else self._stamp)
        with suppress(OSError, SortieError):  # without it the next holder looks itself
            descriptor, _ = open_careful(self._stamp_file, os.O_WRONLY | os.O_CREAT)
            try:
                # Always of the same length, in one go: whoever is killed here leaves the one or the other.
                os.pwrite(descriptor, msgspec.json.encode(known).ljust(_KNOWN_LENGTH), 0)
            finally:
                os.close(descriptor)


def _text(raw: bytes) -> str:
    if len(raw) > LONGEST_TEXT:
        raise SortieError(f"A text of more than {LONGEST_TEXT // 1024**2} MiB does not belong into a document.")
    try:
        return raw.replace(b"\r\n", b"\n").decode()
    except UnicodeDecodeError as error:
        raise SortieError("The text is not UTF-8.", fix="Give it as plain text.") from error
