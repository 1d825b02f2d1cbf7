"""The issue file on disk: which version of it is there, and how it is replaced so that nobody's edit is lost.

A plain rename over the file would destroy an edit made after we read it, by a program that knows nothing of our
lock. Here the two files change places instead, so that what was there can be looked at: if it is not what we
read, it is put back and we begin again with it. Work away from the event loop ends within a deadline, and each
failure is a sentence.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from time import time_ns
from typing import TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct

from ..errors import TrackerError

LIMIT = 64 * 1024 * 1024
TRIES = 20
DEADLINE = 30.0
LOCK_POLL = 0.005

# The clock of a file system ticks: a file that changed just now may change again under the same time stamp. Linux
# ticks at least every 10 ms; file systems that keep whole seconds tick every two.
TICK_NS = 20_000_000
COARSE_TICK_NS = 2_000_000_000

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

_FIXES = {
    errno.ENOENT: "Create it with `[]` in it, or correct `file.path` in the workflow.",
    errno.ENOSPC: "Free some space on its disk.",
    errno.EDQUOT: "Free some space in your quota.",
    errno.EACCES: "Allow this user to read and write it and its folder.",
    errno.EPERM: "Allow this user to read and write it and its folder.",
    errno.EROFS: "Move it to a file system that can be written.",
    errno.EBUSY: "Mount its folder rather than the file alone.",
}

# The change time is no part of it: changing places changes that of both files.
Identity = tuple[int, int, int, int]
Swap = Callable[[Path, Path], bool]

T = TypeVar("T")


class Stamp(Struct, frozen=True):
    """What a stat showed of one version of the file.

    `certain`: no edit can leave the same stamp, so a file that still shows it has not changed. `first_seen` is when
    this stamp was first read, in nanoseconds since the epoch.
    """

    identity: Identity
    changed_ns: int
    first_seen: int = 0
    certain: bool = False

    def shows(self, status: os.stat_result) -> bool:
        return self.identity == identity_of(status) and self.changed_ns == status.st_ctime_ns


class Version(Struct, frozen=True):
    """One version of the file; `raw` is None where its content is known already."""

    stamp: Stamp
    status: os.stat_result
    raw: bytes | None = None


def identity_of(status: os.stat_result) -> Identity:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def stamp_of(status: os.stat_result, now: int, earlier: Stamp | None = None) -> Stamp:
    """The stamp of a file that is read `now`; `earlier` is that of the last reading.

    It is certain when the file has rested for longer than any clock ticks, or when it was read a tick ago and shows
    the same stamp: another edit under the same stamp would have come before this reading. That second rule holds
    for times in the future too, which a file server whose clock is ahead gives.
    """
    first_seen = earlier.first_seen if earlier is not None and earlier.shows(status) else now
    tick = COARSE_TICK_NS if status.st_mtime_ns % 1_000_000_000 == 0 else TICK_NS
    rested = now - status.st_mtime_ns > COARSE_TICK_NS
    return Stamp(identity_of(status), status.st_ctime_ns, first_seen, rested or now - first_seen > tick)


def read(path: Path, earlier: Stamp | None = None) -> Version:
    """The whole file. A FIFO or device cannot block it, a file without end cannot fill the memory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status, now = os.fstat(descriptor), time_ns()
        if not stat.S_ISREG(status.st_mode):
            raise _problem(path, TrackerError.PAYLOAD, "is not a regular file", "Set `file.path` to a JSON file.")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(raw) > LIMIT:
        too_large = f"is larger than {LIMIT // 1024**2} MiB"
        raise _problem(path, TrackerError.PAYLOAD, too_large, "Move finished issues to another file.")
    return Version(stamp_of(status, now, earlier), status, raw)


def exchange(one: Path, other: Path) -> bool:
    """Let two files change places in one step; False where this system or file system cannot do that."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    from ctypes import get_errno  # those who only read do without

    number = get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def rewrite(
    path: Path,
    edit: Callable[[Version], bytes | None],
    swap: Swap = exchange,
    *,
    known: Stamp | None = None,
    before_swap: Callable[[Identity], None] = lambda _: None,
) -> Stamp | None:
    """Replace the content by what `edit` makes of it, atomically and durably; None where it leaves it as it is.

    A file that certainly is as `known` says is not read, and `edit` gets a version without content. `edit` is
    called again with the new content whenever somebody else wrote in between. When anything fails, the file is as
    it was and no temporary file stays. `swap` is how two files change places; `before_swap` is told the identity
    that the file is about to have.
    """
    for _ in range(TRIES):
        before = _version(path, known)
        try:
            after = edit(before)
        except TrackerError:
            if before.stamp.shows(path.lstat()):
                raise
            continue
        if after is None:
            return None
        if stamp := _replace(path, before, after, swap, before_swap):
            return stamp
    restless = f"was changed by another program {TRIES} times while it was being written"
    raise _problem(path, TrackerError.TRANSPORT, restless, "Let that program write less often.")


@asynccontextmanager
async def locked(target: Path, deadline: float) -> AsyncIterator[None]:
    """Hold `<target>.lock`. The lock file stays: removing it would let two processes lock two different files."""
    try:
        descriptor = os.open(
            f"{target}.lock", os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644
        )
    except OSError as error:
        raise sentence(target.with_name(f"{target.name}.lock"), error) from error
    try:
        with anyio.move_on_after(deadline) as waiting:
            while not _try_lock(descriptor):  # noqa: ASYNC110 - another process cannot tell us
                await anyio.sleep(LOCK_POLL)
        if waiting.cancelled_caught:
            raise TrackerError(
                TrackerError.TRANSPORT,
                f"Another process has held {target}.lock for {deadline:g} seconds.",
                fix=f"Find it with `fuser {target}.lock` and end it.",
            )
        yield
    finally:
        os.close(descriptor)


async def in_thread(path: Path, work: Callable[[], T]) -> T:
    """The result of `work` in a worker thread; raises `TrackerError` and nothing else."""
    try:
        with anyio.fail_after(DEADLINE):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except TimeoutError as error:
        raise TrackerError(
            TrackerError.TRANSPORT,
            f"The disk of {path} did not answer within {DEADLINE:.0f} seconds.",
            fix="Check its file system.",
        ) from error
    except OSError as error:
        raise sentence(path, error) from error


def sentence(path: Path, error: OSError) -> TrackerError:
    missing = isinstance(error, FileNotFoundError)
    what = "does not exist" if missing else f"cannot be used: {error.strerror or error}"
    return _problem(path, TrackerError.TRANSPORT, what, _FIXES.get(error.errno or 0, ""))


def _problem(path: Path, kind: str, what: str, fix: str) -> TrackerError:
    return TrackerError(kind, f"The issue file {path} {what}.", fix=fix)


def _version(path: Path, known: Stamp | None) -> Version:
    if known is not None and known.certain:
        status = path.lstat()
        if known.shows(status):
            return Version(known, status)
    return read(path, known)


def _replace(
    path: Path, before: Version, after: bytes, swap: Swap, before_swap: Callable[[Identity], None]
) -> Stamp | None:
    """Put `after` in the place of `before`; None, with nothing changed, if something else is there."""
    temporary, ours = _write_beside(path, before.status, after)
    try:
        if not before.stamp.shows(path.lstat()):
            return None
        before_swap(ours.identity)
        if swap(temporary, path):
            replaced = _holds(temporary, before)
            if not replaced:
                _put_back(temporary, path, ours.identity, swap)
        else:
            # What a plain rename destroys cannot be looked at; the comparison just made has to do.
            temporary.replace(path)
            replaced = True
        _sync_directory(path.parent)
        return _in_place(path, ours) if replaced else None
    finally:
        temporary.unlink(missing_ok=True)


def _holds(path: Path, version: Version) -> bool:
    if identity_of(path.lstat()) != version.stamp.identity:
        return False
    # Two edits within one tick of the clock can leave the same stamp; then the content decides.
    return version.stamp.certain or read(path).raw == version.raw


def _in_place(path: Path, ours: Stamp) -> Stamp:
    """Our stamp with the change time that the move gave it; if it is edited already, one that no file shows."""
    status = path.lstat()
    in_place = identity_of(status) == ours.identity
    return Stamp(ours.identity, status.st_ctime_ns if in_place else -1, ours.first_seen, ours.certain)


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


def _write_beside(path: Path, like: os.stat_result, content: bytes) -> tuple[Path, Stamp]:
    """A new file with this content, on disk."""
    from tempfile import mkstemp

    descriptor, name = mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            with suppress(PermissionError):  # only root may give files away, and the content matters more
                os.fchown(descriptor, like.st_uid, like.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
            # A time between two ticks of its clock, so that an edit of it has another.
            now = time_ns()
            os.utime(descriptor, ns=(now, now))
            status = os.fstat(descriptor)
            os.fsync(descriptor)
            # A file system that keeps coarser times has rounded it.
            return temporary, Stamp(identity_of(status), -1, now, certain=status.st_mtime_ns == now)
    except BaseException:
        temporary.unlink()
        raise


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@cache
def _renameat2() -> Callable[..., int] | None:
    import ctypes

    # Not in every C library; there the plain rename has to do.
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
