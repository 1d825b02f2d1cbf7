"""Reads a file that others edit, and replaces it so that no edit of theirs is lost.

A plain rename over the file would destroy an edit made after we read it, by a program that knows nothing of our
lock. Here the two files change places instead, so that what was there can be looked at: if it is not what we
read, it is put back and we begin again with it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from msgspec import Struct

from ..errors import TrackerError

LIMIT = 64 * 1024 * 1024
TRIES = 20

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

# The change time is no part of it: changing places changes that of both files.
Identity = tuple[int, int, int, int]
Swap = Callable[[Path, Path], bool]


class Version(Struct, frozen=True):
    """One content of the file, and the file that had it."""

    raw: bytes
    status: os.stat_result

    @property
    def identity(self) -> Identity:
        return identity_of(self.status)


def identity_of(status: os.stat_result) -> Identity:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def read(path: Path) -> Version:
    """The whole file. A FIFO or device cannot block it, a file without end cannot fill the memory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TrackerError(
                TrackerError.PAYLOAD,
                f"The issue file {path} is not a regular file.",
                fix="Set `file.path` to a JSON file.",
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(raw) > LIMIT:
        raise TrackerError(
            TrackerError.PAYLOAD,
            f"The issue file {path} is larger than {LIMIT // 1024**2} MiB.",
            fix="Move finished issues to another file.",
        )
    return Version(raw, status)


def rewrite(path: Path, edit: Callable[[bytes], bytes], swap: Swap | None = None) -> None:
    """Replace the content by `edit(content)`, atomically and durably.

    `edit` is called again with the new content whenever somebody else wrote in between. When anything fails, the
    file is as it was and no temporary file stays. `swap` is how two files change places, normally `exchange`.
    """
    for _ in range(TRIES):
        before = read(path)
        try:
            after = edit(before.raw)
        except TrackerError:
            if identity_of(path.lstat()) == before.identity:
                raise
            continue
        if after == before.raw or _replace(path, before, after, swap or exchange):
            return
    raise TrackerError(
        TrackerError.TRANSPORT,
        f"The issue file {path} was changed by another program {TRIES} times while it was being written.",
        fix="Let that program write less often.",
    )


def exchange(one: Path, other: Path) -> bool:
    """Let two files change places in one step; False where this system or file system cannot do that."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _replace(path: Path, before: Version, after: bytes, swap: Swap) -> bool:
    """Put `after` in the place of `before`; False, with nothing changed, if something else is there."""
    temporary, ours = _write_beside(path, before.status, after)
    try:
        if identity_of(path.lstat()) != before.identity:
            return False
        if swap(temporary, path):
            replaced = _holds(temporary, before)
            if not replaced:
                _put_back(temporary, path, ours, swap)
        else:
            # What a plain rename destroys cannot be looked at; the comparison just made has to do.
            temporary.replace(path)
            replaced = True
        _sync_directory(path.parent)
        return replaced
    finally:
        temporary.unlink(missing_ok=True)


def _holds(path: Path, version: Version) -> bool:
    # Two edits within one tick of the clock can leave the same times and size, so the content decides.
    return identity_of(path.lstat()) == version.identity and read(path).raw == version.raw


def _put_back(displaced: Path, path: Path, ours: Identity, swap: Swap) -> None:
    """Return the displaced version to its place, and give way to any version that is newer still."""
    in_place = ours
    while True:
        returned = identity_of(displaced.lstat())
        try:
            swap(displaced, path)
        except FileNotFoundError:  # somebody has removed ours meanwhile
            displaced.replace(path)
            return
        if identity_of(displaced.lstat()) == in_place:
            return
        in_place = returned


def _write_beside(path: Path, like: os.stat_result, content: bytes) -> tuple[Path, Identity]:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _take_owner_and_mode(descriptor, like)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            return temporary, identity_of(os.fstat(descriptor))
    except BaseException:
        temporary.unlink()
        raise


def _take_owner_and_mode(descriptor: int, like: os.stat_result) -> None:
    try:
        os.fchown(descriptor, like.st_uid, like.st_gid)
    except PermissionError:
        pass  # only root may give files away; the content matters more than the owner
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@cache
def _renameat2() -> Callable[..., int] | None:
    # Not in every C library; there the plain rename has to do.
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
