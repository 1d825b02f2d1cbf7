"""Work on the issue file away from the event loop: each ends within a deadline, each failure is a sentence."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from ..errors import TrackerError

DEADLINE = 30.0

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
    if isinstance(error, FileNotFoundError):
        message = f"The issue file {path} does not exist."
    else:
        message = f"The issue file {path} cannot be used: {error.strerror or error}."
    return TrackerError(TrackerError.TRANSPORT, message, fix=_FIXES.get(error.errno or 0, ""))
