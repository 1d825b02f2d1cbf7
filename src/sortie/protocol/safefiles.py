"""Files below a directory that an agent can write: never through a link, never blocking, never without bound.

Every step goes through a directory descriptor with `O_NOFOLLOW`, and what was opened is checked after the open.
A link swapped in at any moment makes the open fail; there is no moment between a check and a use.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any

# O_NONBLOCK: opening a FIFO, or a file under another process's lease, must not wait for that process.
# O_NOCTTY: a terminal device must not become ours.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ_DIRECTORY = _READ | os.O_DIRECTORY
# A new file, whatever stands at its name.
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_KINDS = {
    stat.S_IFREG: "regular file",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "FIFO",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFSOCK: "socket",
}

_RENAME_EXCHANGE = 2
_HALF_WRITTEN = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tmp")


class UnsafeFile(OSError):
    """What stands at the name is not what may be opened there; `errno` is ELOOP exactly for a symbolic link."""

    @property
    def is_link(self) -> bool:
        return self.errno == errno.ELOOP


def explain(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror}"


@contextmanager
def open_directory(start: Path | int, *names: str) -> Iterator[int]:
    """A descriptor of the directory `names` below `start`, closed at the end.

    `start` is a descriptor, which stays open, or a path, whose last component must not be a link either.
    """
    current = start if isinstance(start, int) else _open_directory(start, None)
    try:
        for name in names:
            outer, current = current, _open_directory(component(name), current)
            if outer != start:
                os.close(outer)
        yield current
    finally:
        if current != start:
            os.close(current)


def open_inner(directory: int, name: str) -> int:
    """A descriptor of a directory in another one, which the caller closes."""
    return _open_directory(component(name), directory)


@contextmanager
def open_regular(directory: int, name: str) -> Iterator[int]:
    """A descriptor for reading a regular file, closed at the end."""
    with _open_regular(directory, name) as (descriptor, _):
        yield descriptor


def read_bounded(directory: int, name: str, limit: int, *, linked: bool = False) -> bytes:
    """The first `limit` bytes of a regular file with one name. To refuse longer files, ask for a byte more.

    A file with a second name is refused, unless it may be `linked`: a hard link shows the content of a file that
    lives somewhere else.
    """
    with _open_regular(directory, name) as (descriptor, found):
        if found.st_nlink > 1 and not linked:
            raise UnsafeFile(errno.EMLINK, "Hard link refused", name)
        return _read(descriptor, min(limit, found.st_size))


def write_atomic(directory: int, name: str, data: bytes, mode: int = 0o600) -> None:
    """Put a whole file at `name`, or leave everything as it was; a link at `name` is replaced, not followed.

    It does not wait for the disk: what is written here is worth nothing after the session it was written for.
    """
    temporary = f".{component(name)}.{os.urandom(8).hex()}.tmp"
    descriptor = os.open(temporary, CREATE, mode, dir_fd=directory)
    try:
        try:
            _write(descriptor, data)
        finally:
            os.close(descriptor)
        _put_in_place(directory, temporary, name)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise


def half_written(name: str) -> str:
    """The name under which `write_atomic` would have put this file, had it not died; empty for any other file."""
    found = _HALF_WRITTEN.fullmatch(name)
    return found[1] if found else ""


def remove_half_written(directory: int, name: str) -> None:
    """What deaths in `write_atomic` left of the file at `name`, as far as it can be removed."""
    for entry in os.listdir(directory):
        if half_written(entry) == name:
            with suppress(OSError):
                os.unlink(entry, dir_fd=directory)


def write_new(directory: int, name: str, data: bytes, mode: int = 0o600) -> None:
    """A file where there is none: FileExistsError for whatever stands at `name`. Of one that could not be written
    to its end, nothing stays."""
    descriptor = os.open(component(name), CREATE, mode, dir_fd=directory)
    try:
        _write(descriptor, data)
    except BaseException:
        os.unlink(name, dir_fd=directory)
        raise
    finally:
        os.close(descriptor)


def write_if_changed(directory: int, name: str, data: bytes) -> None:
    """As `write_atomic`, but what is the same already, one file of ours that nobody else can read, stays."""
    with suppress(OSError), _open_regular(directory, name) as (descriptor, found):
        is_private = found.st_nlink == 1 and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o600
        if is_private and found.st_size == len(data) and _read(descriptor, len(data)) == data:
            return
    write_atomic(directory, name, data)


def unused_name(directory: int, name: str) -> str:
    """This name, or the first of `name-2`, `name-3` and so on that nothing here has."""
    there = set(os.listdir(directory))
    return next(one for one in chain([name], (f"{name}-{number}" for number in count(2))) if one not in there)


def component(name: str) -> str:
    """The name, if it is that of one entry and leads nowhere else."""
    if name in ("", ".", "..") or "/" in name:
        raise ValueError(f"{name!r} is not the name of one directory entry")
    return name


def _put_in_place(directory: int, temporary: str, name: str) -> None:
    """Let the two change places and remove the old one. A rename over a file makes ext4 write the new one out at
    once, which takes longer than all the rest."""
    if not _exchange(directory, temporary, name):
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        return
    try:
        os.unlink(temporary, dir_fd=directory)
    except OSError:  # a directory stood there
        _exchange(directory, temporary, name)
        raise


def _exchange(directory: int, one: str, other: str) -> bool:
    """False where one is missing, or kernel and file system cannot do it."""
    renameat2 = _renameat2()
    return renameat2 and not renameat2(directory, os.fsencode(one), directory, os.fsencode(other), _RENAME_EXCHANGE)


@cache
def _renameat2() -> Any:
    import ctypes  # those who only read do without

    return getattr(ctypes.CDLL(None), "renameat2", None)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read(descriptor: int, count: int) -> bytes:
    content = b""
    while len(content) < count and (chunk := os.read(descriptor, count - len(content))):
        content += chunk
    return content


def _open_directory(name: str | Path, directory: int | None) -> int:
    try:
        return os.open(name, _READ_DIRECTORY, dir_fd=directory)
    except NotADirectoryError:
        found = stat.S_IFMT(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        raise _wrong_kind(name, stat.S_IFDIR, found) from None


@contextmanager
def _open_regular(directory: int, name: str) -> Iterator[tuple[int, os.stat_result]]:
    try:
        descriptor = os.open(component(name), _READ, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _wrong_kind(name, stat.S_IFREG, stat.S_IFLNK) from None
        if error.errno == errno.ENXIO:
            raise _wrong_kind(name, stat.S_IFREG, stat.S_IFSOCK) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _wrong_kind(name, stat.S_IFREG, stat.S_IFMT(found.st_mode))
        yield descriptor, found
    finally:
        os.close(descriptor)


def _wrong_kind(name: str | Path, expected: int, actual: int) -> UnsafeFile:
    if actual == stat.S_IFLNK:
        return UnsafeFile(errno.ELOOP, "Symbolic link refused", str(name))
    number = errno.ENOTDIR if expected == stat.S_IFDIR else errno.EINVAL
    return UnsafeFile(number, f"Not a {_KINDS[expected]} but a {_KINDS.get(actual, 'special file')}", str(name))
