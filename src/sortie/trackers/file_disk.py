"""The issue file on disk: which version of it is there, and how it is replaced so that nobody's edit is lost.

What was changed by another program while we wrote is put back (`protocol/changing_places.py`), and we begin again
with it. Work away from the event loop ends within a deadline, and each failure is a sentence.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import time_ns
from typing import TypeVar

import anyio
import anyio.to_thread

from ..errors import TrackerError
from ..protocol.changing_places import Identity, Stamp, Swap, Version, exchange, replace, stamp_of

LIMIT = 64 * 1024 * 1024
TRIES = 20
DEADLINE = 30.0
LOCK_POLL = 0.005

_FIXES = {
    errno.ENOENT: "Create it with `[]` in it, or correct `file.path` in the workflow.",
    errno.ENOSPC: "Free some space on its disk.",
    errno.EDQUOT: "Free some space in your quota.",
    errno.EACCES: "Allow this user to read and write it and its folder.",
    errno.EPERM: "Allow this user to read and write it and its folder.",
    errno.EROFS: "Move it to a file system that can be written.",
    errno.EBUSY: "Mount its folder rather than the file alone.",
}

T = TypeVar("T")


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
        if stamp := replace(path, before, after, swap, lambda _, identity: before_swap(identity)):
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


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
