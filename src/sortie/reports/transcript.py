"""The transcript of a run, of its agent and hooks: a page of its log, from any position; and the log as it grows.

A log is at most two files; when the newer one is full it replaces the older. A position is the file (by its inode)
and a byte offset, so that it stays valid when the files are renamed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from msgspec import Struct

from ..core.redact import Hide
from .words import clean

PAGE = 500
LONGEST_LINE = 16 * 1024
# Read for one page at most, however long its lines are.
MOST_BYTES = 4 << 20
# Shown on one page at most.
MOST_TEXT = 4 << 20
_CHUNK = 65536
_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) ([^:\s]{1,80}): ?(.*)", re.DOTALL)
# By these an agent says what it does with its tools, and our tool server what it was asked.
TOOLS = ("uses", "tool")


class Line(Struct, frozen=True, kw_only=True):
    """`place` is where it begins. `time` and `source` are empty where it is no line of ours; `is_cut`: it is longer
    than it is shown."""

    place: str
    time: str
    source: str
    text: str
    tool: bool = False
    is_cut: bool = False


class Fold(Struct, frozen=True, kw_only=True):
    """Lines that belong together; those about tools can be folded under their `title`."""

    tool: bool
    title: str
    lines: list[Line]


class Transcript(Struct, frozen=True, kw_only=True):
    """`first` and `next` are places: what is before the first line, and what comes after the last one. `exists` is
    False where the run said nothing, or its log was deleted since."""

    lines: list[Line]
    first: str
    next: str
    has_earlier: bool
    has_later: bool
    exists: bool

    def folds(self) -> list[Fold]:
        return folded(self.lines)


def transcript(
    path: Path, *, hide: Hide, after: str = "", before: str = "", limit: int = PAGE, most: int = MOST_TEXT
) -> Transcript:
    """The lines after a place, or those before one; without either, the last ones: so many, with so many characters
    together, and one in any case. `hide` knows secrets that came after they were written."""
    files = _files(path)
    if not files:
        return Transcript(lines=[], first="", next=after, has_earlier=False, has_later=False, exists=False)
    if after:
        return _after(files, _Place.parse(after), _Room(limit, most), hide)
    return _before(files, _Place.parse(before) if before else None, _Room(limit, most), hide)


def folded(lines: Iterable[Line]) -> list[Fold]:
    """Neighbours that are about tools under one title, as all others that follow each other without one."""
    found: list[Fold] = []
    for line in lines:
        if found and found[-1].tool == line.tool:
            found[-1].lines.append(line)
        else:
            found.append(Fold(tool=line.tool, title="", lines=[line]))
    return [_titled(fold) if fold.tool else fold for fold in found]


def _titled(fold: Fold) -> Fold:
    names = dict.fromkeys(line.text.partition(" ")[0].rstrip(":") for line in fold.lines)
    named = ", ".join([*names][:5]) + (", …" if len(names) > 5 else "")
    begun = sum(not re.match(r"\S+ (done|failed)\b", line.text) for line in fold.lines)
    calls = max(begun, 1)
    return Fold(tool=True, title=f"{calls} tool call{'' if calls == 1 else 's'}: {named}", lines=fold.lines)


class _Place(Struct, frozen=True):
    inode: int
    byte: int

    @classmethod
    def parse(cls, text: str) -> _Place:
        """Of a text that is no place, the beginning."""
        inode, _, byte = text.partition(".")
        if inode.isdecimal() and byte.isdecimal() and len(text) <= 60:
            return cls(int(inode), int(byte))
        return cls(0, 0)

    def __str__(self) -> str:
        return f"{self.inode}.{self.byte}"


class _File(Struct, frozen=True):
    """`size` is how long it was when it was opened: what is added meanwhile is for the next page."""

    path: Path
    inode: int
    size: int


class _Room:
    """What still fits on a page: something does on one that is empty."""

    def __init__(self, lines: int, most: int) -> None:
        self._lines = lines
        self._most = most
        self._is_empty = True

    def take(self, lines: Iterable[Line]) -> list[Line]:
        taken = []
        for line in lines if self._lines > 0 else ():
            self._most -= len(line.text)
            if self._most < 0 and not self._is_empty:
                self._lines = 0
                break
            taken.append(line)
            self._is_empty = False
            self._lines -= 1
            if self._lines <= 0:
                break
        return taken


def _files(path: Path) -> list[_File]:
    """The older half first. Neither links nor anything but files are followed."""
    found = []
    for one in (path.with_suffix(".log.1"), path):
        with suppress(OSError):
            status = one.lstat()
            if one.is_file() and not one.is_symlink():
                found.append(_File(one, status.st_ino, status.st_size))
    return found


def _after(files: list[_File], place: _Place, page: _Room, hide: Hide) -> Transcript:
    """From a file that is gone, everything that is left counts as later."""
    number = next((at for at, file in enumerate(files) if file.inode == place.inode), None)
    first = here = place if number is not None else _Place(files[0].inode, 0)
    lines: list[Line] = []
    has_later, room = False, MOST_BYTES
    for file in files[number or 0 :]:
        start = min(here.byte, file.size) if file.inode == here.inode else 0
        data = _read(file, start, room)
        is_whole = start + len(data) >= file.size
        pieces = _pieces(data, start)
        if not pieces and not is_whole and not lines:
            pieces = [_Piece(start, start + len(data), data)]  # one line, longer than a page
        fitting = page.take(_line(piece, file, hide) for piece in pieces)
        taken = pieces[: len(fitting)]
        lines += fitting
        here = _Place(file.inode, taken[-1].end if taken else start)
        has_later = len(taken) < len(pieces) or not is_whole
        room -= len(data)
        if has_later or room <= 0:
            break
    return Transcript(
        lines=lines,
        first=str(first),
        next=str(here),
        has_earlier=first != _Place(files[0].inode, 0),
        has_later=has_later,
        exists=True,
    )


def _before(files: list[_File], place: _Place | None, page: _Room, hide: Hide) -> Transcript:
    """Before a place in a file that is gone there is nothing any more."""
    number = next((at for at, file in enumerate(files) if place and file.inode == place.inode), None)
    oldest = _Place(files[0].inode, 0)
    if place and number is None:
        return Transcript(
            lines=[], first=str(oldest), next=str(oldest), has_earlier=False, has_later=True, exists=True
        )
    wanted = files[: number + 1] if number is not None else files
    end = min(place.byte, wanted[-1].size) if place else wanted[-1].size
    lines: list[Line] = []
    first, here, room = oldest, None, MOST_BYTES
    for file in reversed(wanted):
        start = max(end - room, 0)
        pieces = _pieces(_read(file, start, end - start), start)
        if start and len(pieces) > 1:
            del pieces[0]  # it begins before what was read
        fitting = page.take(_line(piece, file, hide) for piece in reversed(pieces))
        taken = pieces[len(pieces) - len(fitting) :]
        lines = [*reversed(fitting), *lines]
        here = here or _Place(file.inode, taken[-1].end if taken else start)
        # Where the page was full before it, the next one begins at its end.
        first = _Place(file.inode, taken[0].start if taken else end if pieces else start)
        room -= end - start
        if first.byte or room <= 0 or file is wanted[0]:
            break
        end = wanted[0].size
    return Transcript(
        lines=lines,
        first=str(first),
        next=str(here),
        has_earlier=first != oldest,
        has_later=place is not None,
        exists=True,
    )


class _Piece(NamedTuple):
    """A line, without its end; `end` is the byte behind that."""

    start: int
    end: int
    data: bytes


def _pieces(data: bytes, start: int) -> list[_Piece]:
    """The lines that have an end: one without is still being written."""
    found, at = [], 0
    while (end := data.find(b"\n", at)) >= 0:
        found.append(_Piece(start + at, start + end + 1, data[at:end]))
        at = end + 1
    return found


def _read(file: _File, start: int, count: int) -> bytes:
    try:
        with file.path.open("rb") as opened:
            if os.fstat(opened.fileno()).st_ino != file.inode:
                return b""  # renamed since; the next look finds it
            opened.seek(start)
            return opened.read(min(count, max(file.size - start, 0)))
    except OSError:
        return b""


def _line(piece: _Piece, file: _File, hide: Hide) -> Line:
    # More is read than is shown: what is secret is hidden before anything is cut, or half of it would be left.
    read = piece.data[: 4 * LONGEST_LINE]
    whole = read.decode("utf-8", "replace")
    found = _LINE.fullmatch(whole)
    time, source, said = found.groups() if found else ("", "", whole)
    text = hide(clean(said))
    is_cut = len(read) < len(piece.data) or len(text) > LONGEST_LINE
    return Line(
        place=str(_Place(file.inode, piece.start)),
        time=time,
        source=source,
        text=text[:LONGEST_LINE],
        tool=source in TOOLS,
        is_cut=is_cut,
    )


class RunLogReader:
    """Reads a log that is written to and rotated meanwhile; a line is given out once it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def new_lines(self) -> Iterator[str]:
        if self._file is None:
            yield from self._older_half()
        while True:
            if self._file is None and not self._open():
                return
            yield from self._drained()
            if not self._is_replaced():
                return
            yield from self._drained()  # what was written between the last read and the rotation
            self.close()

    def _older_half(self) -> Iterator[str]:
        try:
            self._file = self._path.with_suffix(".log.1").open("rb")
        except FileNotFoundError:
            return
        yield from self._drained()
        self.close()

    def _open(self) -> bool:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            return False
        return True

    def _drained(self) -> Iterator[str]:
        assert self._file
        while data := self._file.read(_CHUNK):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                yield clean(line.decode("utf-8", "replace"))

    def _is_replaced(self) -> bool:
        assert self._file
        try:
            return os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:
            return False  # being renamed, or removed for good

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None
