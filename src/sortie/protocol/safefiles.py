"""Files below a directory that an agent can write: never through a link, never blocking, never without bound.

Every step goes through a directory descriptor with `O_NOFOLLOW`, and what was opened is checked after the open.
A link swapped in at any moment makes the open fail; there is no moment between a check and a use.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# O_NONBLOCK: opening a FIFO, or a file under another process's lease, must not wait for that process.
# O_NOCTTY: a terminal device must not become ours.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_KINDS = {
    stat.S_IFREG: "regular file",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "FIFO",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class UnsafeFile(OSError):
    """What stands at the name is not what may be opened there; `errno` is ELOOP exactly for a symbolic link."""

    @property
    def is_link(self) -> bool:
        return self.errno == errno.ELOOP


@contextmanager
def open_directory(start: Path | int, *names: str) -> Iterator[int]:
    """A descriptor of the directory `names` below `start`, closed at the end.

    `start` is a descriptor, which stays open, or a path, whose last component must not be a link either.
    """
    current = start if isinstance(start, int) else _open(start, None, stat.S_IFDIR)
    try:
        for name in names:
            outer, current = current, _open(component(name), current, stat.S_IFDIR)
            if outer != start:
                os.close(outer)
        yield current
    finally:
        if current != start:
            os.close(current)


@contextmanager
def open_regular(directory: int, name: str) -> Iterator[int]:
    """A descriptor for reading a regular file, closed at the end."""
    descriptor = _open(component(name), directory, stat.S_IFREG)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_bounded(directory: int, name: str, limit: int) -> bytes:
    """The first `limit` bytes of a regular file with one name. To refuse longer files, ask for a byte more.

    A file with a second name is refused: a hard link shows the content of a file that lives somewhere else.
    """
    with open_regular(directory, name) as descriptor:
        if os.fstat(descriptor).st_nlink > 1:
            raise UnsafeFile(errno.EMLINK, "Hard link refused", name)
        content = b""
        while len(content) < limit and (chunk := os.read(descriptor, limit - len(content))):
            content += chunk
        return content


def write_atomic(directory: int, name: str, data: bytes, mode: int = 0o600, *, durable: bool = True) -> None:
    """Put a whole file at `name`, or leave everything as it was; `durable` waits until it is on disk.

    A link at `name` is replaced, not followed.
    """
    temporary = f".{component(name)}.{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _CREATE, mode, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise
    if durable:
        os.fsync(directory)


def _open(name: str | Path, directory: int | None, kind: int) -> int:
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafeFile(errno.ELOOP, "Symbolic link refused", str(name)) from None
        if error.errno == errno.ENXIO:
            raise _wrong_kind(name, kind, "socket") from None
        raise
    actual = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if actual == kind:
        return descriptor
    os.close(descriptor)
    raise _wrong_kind(name, kind, _KINDS.get(actual, "special file"))


def _wrong_kind(name: str | Path, expected: int, actual: str) -> UnsafeFile:
    number = errno.ENOTDIR if expected == stat.S_IFDIR else errno.EINVAL
    return UnsafeFile(number, f"Not a {_KINDS[expected]} but a {actual}", str(name))


def component(name: str) -> str:
    """The name, if it is that of one entry and leads nowhere else."""
    if name in ("", ".", "..") or "/" in name:
        raise ValueError(f"{name!r} is not the name of one directory entry")
    return name
