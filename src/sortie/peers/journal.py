"""The journal of one document: a line for every write of ours, on disk before the document is touched.

It says who wrote what, so that authority never depends on what a text says, and it holds enough for whoever
comes next to finish what a dead writer began. Lines are JSON; the position of a line is its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ..errors import SortieError
from ..protocol.changing_places import sync_directory
from .state_file import open_careful, problem_of

Operation = Literal["append", "create", "rewrite", "note", "told"]


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
    offset: int = 0
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
        try:
            self._descriptor, status = open_careful(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            self._descriptor, status = open_careful(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            sync_directory(path.parent)
        self.size = status.st_size

    def close(self) -> None:
        os.close(self._descriptor)

    def append(self, line: Line) -> int:
        """The position of the line, which is on disk then; when it fails, nothing of it stays."""
        try:
            raw = msgspec.json.encode(line) + b"\n"
        except UnicodeEncodeError as error:
            raise SortieError("The text holds characters that UTF-8 has no form for.") from error
        position = self.size
        try:
            _write(self._descriptor, raw)
            os.fdatasync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, position)
            raise problem_of(self._path, error) from error
        self.size += len(raw)
        return position

    def drop(self, position: int) -> None:
        """Take back everything from there on."""
        os.ftruncate(self._descriptor, position)
        os.fdatasync(self._descriptor)
        self.size = position

    def drop_torn_end(self) -> None:
        """A last line without its end was never acknowledged."""
        if self.size and os.pread(self._descriptor, 1, self.size - 1) != b"\n":
            start, step = self.size, 4096
            while start and b"\n" not in os.pread(self._descriptor, self.size - start, start):
                start = max(0, start - step)
                step *= 2
            self.drop(start + os.pread(self._descriptor, self.size - start, start).rfind(b"\n") + 1)

    def lines(self, start: int = 0) -> Iterator[tuple[int, Line]]:
        return lines_of(self._path, start)


def lines_of(path: Path, start: int = 0) -> Iterator[tuple[int, Line]]:
    """Whole lines with their positions; what is no line of ours is skipped."""
    try:
        descriptor, _ = open_careful(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        file.seek(start)
        position = start
        for raw in file:
            line = _decoded(raw)
            if line is not None:
                yield position, line
            position += len(raw)


def _decoded(raw: bytes) -> Line | None:
    if not raw.endswith(b"\n"):
        return None
    try:
        line = _DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return line if line.op == "told" or line.record is not None else None


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
