"""Whole trees that an agent wrote, copied: all regular files, each with its hash, and the names of all the rest.

Links, FIFOs, sockets, devices and what cannot be read are not copied but named. A file with several names becomes
several files. Holes in files stay holes, and cost nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from .outbox import SPECIAL
from .safefiles import CREATE, component, open_regular
from .tree_walk import Check, Descent

_CHUNK = 1 << 20
_HOLES_WORTH_KEEPING = 1 << 20
# Of a file with holes, only blocks that are not zero are written, and hashed with their places.
_BLOCK = 1 << 16
_ZERO = bytes(_BLOCK)

Version = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Copied:
    """A file at `path`, from above the top of the tree. With `holes`, the hash is that of its data and their
    places. One that was left out has no hash."""

    path: str
    size: int
    sha256: str
    version: Version
    holes: bool = False


@dataclass(slots=True)
class TreeCopy:
    """`skipped` has the paths of what was not copied and stays, each with the reason."""

    files: list[Copied] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def copy_tree(
    source: int,
    name: str,
    target: int,
    check: Check,
    leave_out: Callable[[tuple[str, ...]], bool] = lambda _: False,
) -> TreeCopy:
    """Copy what stands at `name` in the directory `source` into the directory `target`, which has no such entry.

    `leave_out` is asked for each file, by the names below the top: it is noted, but not copied. A target that
    cannot be written raises OSError; what is there by then is the caller's.
    """
    with Descent(source) as place, Descent(target) as copy:
        copying = _Copying(place, copy, check, leave_out)
        copying.walk(name)
        return copying.done


def read_tree(source: int, name: str, check: Check) -> TreeCopy:
    """The same files, only read."""
    with Descent(source) as place:
        reading = _Reading(place, check)
        reading.walk(name)
        return reading.done


def version_of(found: os.stat_result) -> Version:
    """What tells this file, unchanged, from any other. To remove one of several names of a file changes it."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns if found.st_nlink == 1 else 0


class Walker(Protocol):
    def enter(self, name: str) -> bool:
        """Go down, or note why not."""

    def take(self, names: Sequence[str]) -> list[str]:
        """What is to be done with these entries; the answer is the directories to enter, the last one first."""

    def leave(self) -> None:
        """Go up again."""

    def names(self) -> list[str]:
        """Of all entries here."""


def walk(names: list[str], walker: Walker) -> None:
    """Through these directories and all below, without recursion."""
    pending = [names]
    while True:
        if pending[-1]:
            if walker.enter(pending[-1].pop()):
                pending.append(walker.take(walker.names()))
            continue
        pending.pop()
        if not pending:
            return
        walker.leave()


class _Reading:
    """Goes through the tree by name, and takes each regular file."""

    def __init__(self, place: Descent, check: Check) -> None:
        self.done = TreeCopy()
        self._place = place
        self._check = check

    def walk(self, name: str) -> None:
        walk(self.take([component(name)]), self)

    def enter(self, name: str) -> bool:
        self._check()
        try:
            self._place.enter(name)
        except OSError as error:
            self._skip(name, error)
            return False
        return True

    def names(self) -> list[str]:
        directory: int = self._place.fd
        try:
            return sorted(os.listdir(directory))
        except OSError as error:
            self.done.skipped.append((self._place.path(), error.strerror or str(error)))
            return []

    def leave(self) -> None:
        self._place.leave()

    def take(self, names: Sequence[str]) -> list[str]:
        inner = []
        for name in names:
            self._check()
            try:
                kind = stat.S_IFMT(_source(os.stat, name, dir_fd=self._place.fd, follow_symlinks=False).st_mode)
                if kind == stat.S_IFDIR:
                    inner.append(name)
                elif kind != stat.S_IFREG:  # told before it is opened: to open a device may do something already
                    self.done.skipped.append((self._place.path(name), SPECIAL.get(kind, "It is no regular file")))
                else:
                    self._read(name)
            except _Unreadable as unreadable:
                self._skip(name, unreadable.error)
        return inner[::-1]

    def _skip(self, name: str, error: OSError) -> None:
        self.done.skipped.append((self._place.path(name), error.strerror or str(error)))

    def _read(self, name: str) -> None:
        with _opened(self._place, name) as descriptor:
            found = os.fstat(descriptor)
            self._note(name, found, self._digest(descriptor, found))

    def _note(self, name: str, found: os.stat_result, digest: str) -> None:
        self.done.files.append(
            Copied(self._place.path(name), found.st_size, digest, version_of(found), _has_holes(found))
        )

    def _digest(self, descriptor: int, found: os.stat_result, copy: int | None = None) -> str:
        digest = hashlib.sha256()
        if _has_holes(found):
            digest.update(b"%d\n" % found.st_size)
            for place, data in _blocks(descriptor, found.st_size):
                self._check()
                digest.update(b"%d\n" % place)
                digest.update(data)
                if copy is not None:
                    _write(copy, data, place)
            if copy is not None:
                os.ftruncate(copy, found.st_size)
        else:
            for place in range(0, found.st_size, _CHUNK):
                self._check()
                data = _pread(descriptor, min(_CHUNK, found.st_size - place), place)
                digest.update(data)
                if copy is not None:
                    _write(copy, data, place)
        if version_of(os.fstat(descriptor)) != version_of(found):
            raise _Unreadable(OSError(errno.EBUSY, "It changed while it was read"))
        return digest.hexdigest()


class _Copying(_Reading):
    def __init__(
        self, place: Descent, copy: Descent, check: Check, leave_out: Callable[[tuple[str, ...]], bool]
    ) -> None:
        super().__init__(place, check)
        self._copy = copy
        self._leave_out = leave_out

    def enter(self, name: str) -> bool:
        if not super().enter(name):
            return False
        os.mkdir(name, 0o755, dir_fd=self._copy.fd)
        self._copy.enter(name)
        return True

    def leave(self) -> None:
        super().leave()
        self._copy.leave()

    def _read(self, name: str) -> None:
        with _opened(self._place, name) as descriptor:
            found = os.fstat(descriptor)
            if self._leave_out((*self._place.names[1:], name)):
                self._note(name, found, "")
                return
            copy = os.open(name, CREATE, 0o600, dir_fd=self._copy.fd)
            try:
                digest = self._digest(descriptor, found, copy)
                os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
                os.fchmod(copy, stat.S_IMODE(found.st_mode) & 0o777)
            except _Unreadable:
                os.unlink(name, dir_fd=self._copy.fd)
                raise
            finally:
                os.close(copy)
            self._note(name, found, digest)


class _Unreadable(Exception):
    """A file of the tree; that a copy cannot be written is something else."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(str(error))


def _source(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return call(*arguments, **options)
    except OSError as error:
        raise _Unreadable(error) from error


@contextmanager
def _opened(place: Descent, name: str) -> Iterator[int]:
    """A regular file of the directory where `place` is, that lives there."""
    with ExitStack() as stack:
        descriptor: int = _source(stack.enter_context, open_regular(place.fd, name))
        _source(place.refuse_mount, descriptor, name)
        yield descriptor


def _has_holes(found: os.stat_result) -> bool:
    return found.st_size - found.st_blocks * 512 >= _HOLES_WORTH_KEEPING


def _blocks(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Every block of a file that is not zero, with its place; holes are not read."""
    place = 0
    while place < size:
        try:
            data = os.lseek(descriptor, place, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # Only a hole is left.
            raise _Unreadable(error) from error
        place = max(place, data - data % _BLOCK)
        block = _pread(descriptor, min(_BLOCK, size - place), place)
        if block != _ZERO[: len(block)]:
            yield place, block
        place += _BLOCK


def _pread(descriptor: int, count: int, place: int) -> bytes:
    """All of it; a file that got shorter meanwhile is found out by its version."""
    data: bytes = _source(os.pread, descriptor, count, place)
    while 0 < len(data) < count and (more := _source(os.pread, descriptor, count - len(data), place + len(data))):
        data += more
    return data


def _write(copy: int, data: bytes, place: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(copy, rest, place)
        rest, place = rest[written:], place + written
