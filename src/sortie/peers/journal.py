"""The journal of one document: a line for every write of ours, on disk before the document is touched.

It says who wrote what, so that authority never depends on what a text says, and it holds enough for whoever
comes next to finish what a dead writer began. Lines are JSON; the position of a line is its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from ..errors import SortieError
from ..protocol.changing_places import sync_directory
from .key_table import KeyTable
from .state_file import add_line, open_careful, problem_of

Operation = Literal["append", "create", "rewrite", "note", "told"]
# An agent can write what it likes into the file, and no number in it may be one that a system call does not take.
_Count = Annotated[int, Meta(ge=0, le=2**62)]
_BLOCK = 65536
# Longer than what the longest text makes.
LONGEST_LINE = 128 << 20


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who wrote something, and what."""

    at: float
    author: str
    role: str
    run_id: str = ""
    key: str = ""  # of a write that must happen once
    subject: str = ""
    text: str = ""  # what was written, to be found again in the document
    digest: str = ""


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation. `told` has no record: it says which lost texts somebody has been told of."""

    op: Operation
    record: Record | None = None
    # append: where the document ended, what was put before the text, and how its lines end.
    offset: _Count = 0
    lead: str = ""
    crlf: bool = False
    # rewrite: the version that is replaced, the new file and where it stood before.
    base: tuple[int, ...] = ()
    inode: int = 0
    beside: str = ""
    # Lines that this one speaks of: told, or written again by it.
    of: tuple[int, ...] = ()

    def written(self) -> bytes:
        """The very bytes of an append."""
        assert self.record is not None
        data = (self.lead + self.record.text).encode()
        return data.replace(b"\n", b"\r\n") if self.crlf else data

    def public(self) -> Record | None:
        """What others may know: the first content of a document is meant to change, so it is no text to keep."""
        if self.op == "create" and self.record is not None:
            return msgspec.structs.replace(self.record, text="")
        return self.record


_DECODER = msgspec.json.Decoder(Line)


class Journal:
    """The file, opened by the holder of the document's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys = KeyTable(path.with_suffix(".keys"))
        try:
            self._descriptor, status = open_careful(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            self._descriptor, status = open_careful(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            sync_directory(path.parent)
        self.size = status.st_size
        self._drop_torn_end()

    def close(self) -> None:
        os.close(self._descriptor)

    def append(self, line: Line) -> int:
        """The position of the line, which is on disk then; when it fails, nothing of it stays."""
        try:
            raw = msgspec.json.encode(line) + b"\n"
        except UnicodeEncodeError as error:
            raise SortieError("The text holds characters that UTF-8 has no form for.") from error
        if os.lseek(self._descriptor, 0, os.SEEK_END) != self.size:
            self._drop_torn_end()
        position = self.size
        if line.record is not None and line.record.key:
            self._prepare_key(line.record.key, position)
        add_line(self._path, self._descriptor, raw)
        self.size = position + len(raw)
        return position

    def drop(self, position: int) -> None:
        """Take back everything from there on."""
        try:
            os.ftruncate(self._descriptor, position)
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise problem_of(self._path, error) from error
        self.size = position

    def _drop_torn_end(self) -> None:
        """A last line without its end was never acknowledged."""
        self.size = os.lseek(self._descriptor, 0, os.SEEK_END)
        start, tail = self.size, b""
        while start and b"\n" not in tail:
            start = max(0, start - _BLOCK)
            tail = os.pread(self._descriptor, _BLOCK, start)
        whole = start + tail.rfind(b"\n") + 1
        if whole < self.size:
            self.drop(whole)

    def lines(self, start: int = 0) -> Iterator[tuple[int, Line]]:
        return lines_of(self._path, start)

    def has_key(self, key: str) -> bool:
        """Whether a record with this key is here, found without reading all of it."""
        with self._failures_of_keys():
            if not self._keys.exists():
                self._keys.make(self._keyed())
            return any(self._key_at(position) == key for position in self._keys.places(key))

    def _prepare_key(self, key: str, position: int) -> None:
        with self._failures_of_keys():
            if not self._keys.exists() or not self._keys.add(key, position):
                self._keys.make([*self._keyed(), (key, position)])

    def _keyed(self) -> Iterator[tuple[str, int]]:
        for position, line in self.lines():
            if line.record is not None and line.record.key:
                yield line.record.key, position

    def _key_at(self, position: int) -> str:
        found, line = next(self.lines(position), (-1, None)) if position < self.size else (-1, None)
        return line.record.key if found == position and line is not None and line.record is not None else ""

    @contextmanager
    def _failures_of_keys(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise problem_of(self._keys.path, error) from error


def lines_of(path: Path, start: int = 0) -> Iterator[tuple[int, Line]]:
    """Whole lines with their positions; what is no line of ours is skipped."""
    try:
        descriptor, _ = open_careful(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        file.seek(start)
        at, is_start = start, True
        while raw := file.readline(LONGEST_LINE):
            # What is longer was not written by us, and is passed over piece by piece.
            line = _decoded(raw) if is_start else None
            if line is not None:
                yield at, line
            at, is_start = at + len(raw), raw.endswith(b"\n")


def _decoded(raw: bytes) -> Line | None:
    if not raw.endswith(b"\n"):
        return None
    try:
        line = _DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return line if line.op == "told" or line.record is not None else None
