"""What lies in a task's outbox: regular files with one name, each with its hash, and whatever was refused.

Nothing is followed, nothing blocks, and the walk ends at the first bound that is passed: neither a million files
nor one of a terabyte costs more than what is allowed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .foreign_text import escape
from .safefiles import UnsafeFile, component, open_regular
from .tree_walk import Check, Descent, go_on

MOST_DEPTH = 64
# On the average of all that are allowed: each is kept on record, and one alone may have 16,000 characters.
LONGEST_PATHS = 1024
SUMMARY = "outbox/summary.md"
_NO_DELIVERABLE = ("outbox/summary.md", "outbox/error_report.md")
_PARTIAL = "outbox/partial/"
_CHUNK = 1024 * 1024
# What would show a name in another order than it is written, beside control characters and line ends.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNNAMEABLE = ("Cc", "Cs", "Zl", "Zp")
# What a name may stand for beside files and directories.
SPECIAL = {
    stat.S_IFLNK: "It is a symbolic link",
    stat.S_IFIFO: "It is a FIFO",
    stat.S_IFSOCK: "It is a socket",
    stat.S_IFCHR: "It is a device",
    stat.S_IFBLK: "It is a device",
}


@dataclass(frozen=True, slots=True)
class Delivered:
    """A file as it was when it was read; `path` begins with the name of the directory that was walked."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Stock:
    """All that was found, sorted by path. `refused` has paths that can be shown, each with the reason.

    With a `problem` the walk did not come to its end, and no file counts.
    """

    files: tuple[Delivered, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    problem: str = ""


def take_stock(
    folder: int, top: str = "outbox", *, most_files: int, most_bytes: int, check: Check = go_on
) -> Stock:
    """Walk over the directory `top` of the task folder that is open as `folder`, and read every file.

    `check` is called before each step and raises to interrupt. A sparse file counts with its size.
    """
    with Descent(folder) as place:
        stocktaking = _Stocktaking(place, top, most_files, most_bytes, check)
        try:
            stocktaking.walk()
        except _Stopped as stopped:
            return Stock(refused=tuple(sorted(stocktaking.refused)), problem=str(stopped))
    files = sorted(stocktaking.files, key=lambda file: file.path)
    return Stock(files=tuple(files), refused=tuple(sorted(stocktaking.refused)))


def missing(stock: Stock, required: Sequence[str]) -> list[str]:
    """What a task still owes, in sentences: a summary, something beside it, and every path that is required.

    A required path that ends in `/` is a directory, and needs a file that is not empty.
    """
    if stock.problem:
        return [stock.problem]
    sizes = {file.path: file.size for file in stock.files}
    refused = dict(stock.refused)
    owed = [_owed(path, sizes, refused) for path in dict.fromkeys((SUMMARY, *required))]
    if not any(is_deliverable(path) and size for path, size in sizes.items()):
        owed.append("The outbox holds no deliverable: no file with content beside the summary.")
    return [sentence for sentence in owed if sentence]


def _owed(path: str, sizes: dict[str, int], refused: dict[str, str]) -> str:
    if path.endswith("/"):
        found = any(size for name, size in sizes.items() if name.startswith(path))
        return "" if found else f"{path} is missing, or holds no file with content."
    if path in sizes:
        return "" if sizes[path] else f"{path} is empty."
    return f"{path} is refused: {refused[path]}." if path in refused else f"{path} is missing."


def is_deliverable(path: str) -> bool:
    """Whether a file is work: no summary, and nothing that tells of a failure."""
    return path not in _NO_DELIVERABLE and not path.startswith(_PARTIAL)


class _Stopped(Exception):
    """A bound was passed; the text is the problem."""


class _Stocktaking:
    def __init__(self, place: Descent, top: str, most_files: int, most_bytes: int, check: Check) -> None:
        self.files: list[Delivered] = []
        self.refused: list[tuple[str, str]] = []
        self._place = place
        self._top = component(top)
        self._most_files = most_files
        self._most_bytes = most_bytes
        self._check = check
        self._entries = 0
        self._directories = 0
        self._bytes = 0
        self._characters = 0

    def walk(self) -> None:
        """Down and up again without recursion; each level has the names that are still to be entered."""
        pending = [[self._top]]
        while pending:
            self._check()
            if pending[-1]:
                name = pending[-1].pop()
                if self._entered(name):
                    pending.append(self._take_directory())
                continue
            pending.pop()
            if pending:
                self._leave()

    def _entered(self, name: str) -> bool:
        path = self._place.path(name)
        if len(self._place.names) >= MOST_DEPTH:
            raise _Stopped(f"{escape(self._top)} is nested more than {MOST_DEPTH} deep.")
        try:
            self._place.enter(name)
        except OSError as error:
            if not self._place.names:
                raise _Stopped(f"{escape(name)} cannot be read: {_reason(error)}.") from None
            self.refused.append((path, _reason(error)))
            return False
        return True

    def _leave(self) -> None:
        try:
            self._place.leave()
        except OSError as error:
            raise _Stopped(f"{escape(self._place.path())} cannot be read: {_reason(error)}.") from None

    def _take_directory(self) -> list[str]:
        """Take all files of the directory we are in; the answer is the directories in it."""
        names, directories = list[str](), list[str]()
        try:
            with os.scandir(self._place.fd) as entries:
                for entry in entries:
                    self._check()
                    self._sort(entry, names, directories)
        except OSError as error:
            self.refused.append((self._place.path(), _reason(error)))
        for name in sorted(names):
            self._check()
            self._take(name)
        return sorted(directories, reverse=True)

    def _sort(self, entry: os.DirEntry[str], names: list[str], directories: list[str]) -> None:
        path = self._place.path(entry.name)
        self._characters += len(path)
        if self._characters > LONGEST_PATHS * (self._most_files + MOST_DEPTH):
            raise _Stopped(f"{self._top} holds too many files with paths of more than {LONGEST_PATHS} characters.")
        if entry.is_dir(follow_symlinks=False):
            self._directories += 1
            if self._directories > self._most_files:
                raise _Stopped(f"{self._top} holds more than {self._most_files} directories.")
            kind = directories
        else:
            self._entries += 1
            if self._entries > self._most_files:
                raise _Stopped(f"{self._top} holds more than {self._most_files} files.")
            kind = names
        if is_nameable(entry.name):
            kind.append(entry.name)
        else:
            self.refused.append((escape(path), "Its name has characters that no name may have"))

    def _take(self, name: str) -> None:
        path = self._place.path(name)
        try:
            with open_delivered(self._place, name) as (descriptor, found):
                self._bytes += found.st_size
                if self._bytes > self._most_bytes:
                    raise _Stopped(f"{self._top} holds more than {self._most_bytes} bytes.")
                digest = digest_of(descriptor, found, self._check)
            self.files.append(Delivered(path, found.st_size, digest))
        except OSError as error:
            self.refused.append((path, _reason(error)))


@contextmanager
def open_delivered(place: Descent, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """A file of the directory where `place` is, if it is a regular one with one name that lives there."""
    kind = stat.S_IFMT(os.stat(component(name), dir_fd=place.fd, follow_symlinks=False).st_mode)
    if kind in SPECIAL:  # told before it is opened: to open a device may do something already
        raise UnsafeFile(errno.EINVAL, SPECIAL[kind], name)
    with open_regular(place.fd, name) as descriptor:
        found = os.fstat(descriptor)
        if found.st_nlink > 1:
            raise UnsafeFile(errno.EMLINK, "It is a hard link", name)
        place.refuse_mount(descriptor, name)
        yield descriptor, found


def digest_of(descriptor: int, found: os.stat_result, check: Check) -> str:
    """The SHA-256 of a file that is, and stays while it is read, as it was `found`."""
    digest = hashlib.sha256()
    for chunk in chunks(descriptor, found.st_size, check):
        digest.update(chunk)
    if _version(os.fstat(descriptor)) != _version(found):
        raise OSError(errno.EBUSY, "It changed while it was read")
    return digest.hexdigest()


def chunks(descriptor: int, size: int, check: Check) -> Iterator[bytes]:
    """The content of a file of this size; of one that has grown, a byte more."""
    left = size + 1
    while left:
        check()
        chunk = os.read(descriptor, min(left, _CHUNK))
        if not chunk:
            return
        left -= len(chunk)
        yield chunk


def is_nameable(name: str) -> bool:
    """Whether it is UTF-8, in one line, and shows as it is written."""
    return not any(unicodedata.category(c) in _UNNAMEABLE or c in _DIRECTIONS for c in name)


def _version(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
