"""A new version of a file takes the place of the one that was read, atomically and durably, or of none at all.

A plain rename over the file would destroy an edit made after we read it, by a program that knows nothing of our
lock. Here the two files change places instead, so that what was there can be looked at: if it is not what we
read, it is put back.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from signal import SIGURG
from time import monotonic, sleep, time_ns
from typing import NamedTuple

# The clock of a file system ticks: a file that changed just now may change again under the same time stamp. Linux
# ticks at least every 10 ms; file systems that keep whole seconds tick every two.
TICK_NS = 20_000_000
COARSE_TICK_NS = 2_000_000_000

_PAUSE = 0.002

_SUFFIX = ".tmp"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

# The change time is no part of it: changing places changes that of both files.
Identity = tuple[int, int, int, int]
Swap = Callable[[Path, Path], bool]


class Stamp(NamedTuple):
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


class Version(NamedTuple):
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


def replace(
    path: Path,
    before: Version,
    after: bytes,
    swap: Swap = exchange,
    before_swap: Callable[[Path, Identity], None] = lambda *_: None,
    patience: float = 0.0,
) -> Stamp | None:
    """Put `after` in the place of `before`; None, with nothing changed, if something else is there.

    When anything fails, the file is as it was and no temporary file stays. `before_swap` is told where the new file
    stands and the identity that the file is about to have; when it fails, so does this. Somebody who has the old
    file open for writing is waited for; OSError with ETXTBSY if that takes longer than `patience`, if there is any.
    """
    temporary, ours = _write_beside(path, before.status, after)
    try:
        if not before.stamp.shows(path.lstat()):
            return None
        before_swap(temporary, ours.identity)
        if swap(temporary, path):
            in_use = patience > 0 and not wait_for_writers(temporary, patience)
            replaced = not in_use and _holds(temporary, before)
            if not replaced:
                put_back(temporary, path, ours.identity, swap)
            if in_use:
                raise OSError(errno.ETXTBSY, os.strerror(errno.ETXTBSY), str(path))
        else:
            # What a plain rename destroys cannot be looked at; the comparison just made has to do.
            temporary.replace(path)
            replaced = True
        sync_directory(path.parent)
        return _in_place(path, ours) if replaced else None
    finally:
        temporary.unlink(missing_ok=True)


def put_back(displaced: Path, path: Path, ours: Identity, swap: Swap = exchange) -> None:
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


def wait_for_writers(path: Path, patience: float) -> bool:
    """Whether nobody has this file open for writing, so that a save in place is over; asked for some seconds."""
    deadline = monotonic() + patience
    while _is_open_for_writing(path):
        if monotonic() >= deadline:
            return False
        sleep(_PAUSE)
    return True


def is_beside(path: Path, name: str) -> bool:
    """Whether this is the name of a new version that waits to take the place of the file."""
    return name.startswith(_prefix(path)) and name.endswith(_SUFFIX) and "/" not in name


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_open_for_writing(path: Path) -> bool:
    """The system grants a lease only where nobody writes. It tells that to the owner alone; to others it is no."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Whoever opens the file in this instant makes the system send a signal, and the usual one would end us.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False


def _prefix(path: Path) -> str:
    return f".{path.name}.sortie-"


def _holds(path: Path, version: Version) -> bool:
    if identity_of(path.lstat()) != version.stamp.identity:
        return False
    # Two edits within one tick of the clock can leave the same stamp; then the content decides.
    return version.stamp.certain or path.read_bytes() == version.raw


def _in_place(path: Path, ours: Stamp) -> Stamp:
    """Our stamp with the change time that the move gave it; if it is edited already, one that no file shows."""
    status = path.lstat()
    in_place = identity_of(status) == ours.identity
    return Stamp(ours.identity, status.st_ctime_ns if in_place else -1, ours.first_seen, ours.certain)


def _write_beside(path: Path, like: os.stat_result, content: bytes) -> tuple[Path, Stamp]:
    """A new file with this content, on disk."""
    from tempfile import mkstemp

    descriptor, name = mkstemp(prefix=_prefix(path), suffix=_SUFFIX, dir=path.parent)
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


@cache
def _renameat2() -> Callable[..., int] | None:
    import ctypes

    # Not in every C library; there the plain rename has to do.
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
