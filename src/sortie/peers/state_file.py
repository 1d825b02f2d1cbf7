"""Files of the state directory: never opened through a link, and locked so that a refusal names the holder.

A lock file is never removed, because that would let two processes lock two different files. Where somebody else
removed it, the lock is taken again on the file that has the name now.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import SortieError
from ..protocol.foreign_text import escape, shortened

_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LEAST_PAUSE = 0.001
_MOST_PAUSE = 0.006
_SIGNATURE = 1024
_SHOWN_COMMAND = 80

_FIXES = {
    errno.ENOSPC: "Free some space on its disk.",
    errno.EDQUOT: "Free some space in your quota.",
    errno.EACCES: "Allow this user to read and write it and its directory.",
    errno.EPERM: "Allow this user to read and write it and its directory.",
    errno.EROFS: "Run the command where that file system can be written; inside a sandbox it often cannot.",
    errno.ETXTBSY: "Close it in the program that has it open for writing.",
}


def problem_of(path: Path, error: OSError) -> SortieError:
    """The sentence for what the system said about this file."""
    if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
        return not_regular(path)
    reason = (error.strerror or str(error)).lower()
    return SortieError(f"{path} cannot be used: {reason}.", fix=_FIXES.get(error.errno or 0, ""))


def not_regular(path: Path) -> SortieError:
    return SortieError(
        f"{path} is not a regular file of its own, but a link, a directory or something else.",
        fix="Put a regular file in its place.",
    )


def open_careful(path: Path, flags: int, mode: int = 0o600) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file with one name, which the caller closes, and what it is.

    FileNotFoundError where there is none; SortieError for anything else that is not such a file.
    """
    try:
        descriptor = os.open(path, flags | _CAREFUL, mode)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise problem_of(path, error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise not_regular(path)
    return descriptor, status


def write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def add_line(path: Path, descriptor: int, line: bytes) -> None:
    """Put a line at the end, on disk when it returns; when that fails, nothing of it stays."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        write_all(descriptor, line)
        os.fdatasync(descriptor)
    except OSError as error:
        with suppress(OSError):  # a line without an end is nobody's
            os.ftruncate(descriptor, end)
        raise problem_of(path, error) from error


@contextmanager
def locked(path: Path, patience: float) -> Iterator[None]:
    """Hold the lock `path`; SortieError with the holder's name after `patience` seconds."""
    descriptor = _acquire(path, patience)
    try:
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, patience: float) -> int:
    deadline = time.monotonic() + patience
    while True:
        try:
            descriptor, _ = open_careful(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError as error:
            raise problem_of(path, error) from error
        try:
            _wait(descriptor, path, deadline, patience)
            if _names(path, descriptor):
                _sign(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _wait(descriptor: int, path: Path, deadline: float, patience: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError as error:
            raise problem_of(path, error) from error
        else:
            return
        if time.monotonic() >= deadline:
            raise SortieError(
                f"{_holder(descriptor)} has held {path} for {patience:g} seconds.",
                fix=f"Wait for it, or find it with `fuser {path}` and end it.",
            )
        # Another process cannot tell us, and equal pauses would let the same one win again and again.
        time.sleep(random.uniform(_LEAST_PAUSE, _MOST_PAUSE))  # noqa: S311


def _names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:3]]) if sys.argv else "python"
    said = json.dumps({"pid": os.getpid(), "command": escape(command)[:_SHOWN_COMMAND]}).encode()
    with suppress(OSError):  # a full disk is no reason to go without the lock
        # Always of the same length: to cut the file takes as long as all the rest of a write to a document.
        os.pwrite(descriptor, said.ljust(_SIGNATURE), 0)


def _holder(descriptor: int) -> str:
    # Between taking the lock and signing, the file may hold nothing, or the name of the one before.
    try:
        said = json.loads(os.pread(descriptor, _SIGNATURE, 0))
        pid, command = int(said["pid"]), str(said["command"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "Another process"
    return f"Process {pid} ({shortened(escape(command), _SHOWN_COMMAND)})"
