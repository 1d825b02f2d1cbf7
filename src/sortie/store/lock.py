"""One orchestrator for each store: a lock file beside the database that says who holds it.

The lock is the kernel's and ends with its process however that ends, so a file left behind by a dead one is no
obstacle. The file itself is never removed: removing it would let two processes lock two different files.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import StoreLocked
from .faults import explain_system

# Somebody who asks for the holder has the lock for an instant; a start must not be refused because of that.
_TRIES = 10
_PAUSE_SECONDS = 0.02


@contextmanager
def held(database: Path, holder: Mapping[str, Any]) -> Iterator[None]:
    """Hold the lock of this database; `holder` adds to what the lock file says of us."""
    descriptor = _open(database, os.O_RDWR | os.O_CREAT)
    try:
        if not _take(descriptor):
            raise _refusal(database, _read(descriptor))
        try:
            _write(descriptor, holder)
        except OSError as error:
            raise explain_system(error, lock_path(database)) from error
        yield
    finally:
        os.close(descriptor)


def holder_of(database: Path) -> dict[str, Any] | None:
    """What the holder said of itself, or None when nobody holds the lock now."""
    if not lock_path(database).exists():
        return None
    descriptor = _open(database, os.O_RDONLY)
    try:
        if _try(descriptor, fcntl.LOCK_SH):
            return None
        return _read(descriptor)
    finally:
        os.close(descriptor)


def lock_path(database: Path) -> Path:
    real = database.resolve()
    return real.with_name(real.name + ".lock")


def _open(database: Path, flags: int) -> int:
    path = lock_path(database)
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise explain_system(error, path) from error


def _take(descriptor: int) -> bool:
    for _ in range(_TRIES):
        if _try(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(descriptor: int, holder: Mapping[str, Any]) -> None:
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, **holder}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(said).encode(), 0)


def _read(descriptor: int) -> dict[str, Any]:
    # Between taking the lock and writing to it the file may hold nothing, or half of something.
    try:
        said = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _refusal(database: Path, holder: Mapping[str, Any]) -> StoreLocked:
    who = "Another sortie"
    if holder:
        who += " (pid {}, host {}, since {})".format(*(holder.get(key, "?") for key in ("pid", "host", "since")))
    return StoreLocked(
        f"{who} is using {database}.", fix="Stop it first, or set db_path in the workflow to another file."
    )
