"""One orchestrator for each store, workflow and root of workspaces: locks that say who holds them.

All are the kernel's and end with their process however that ends, so a file left behind by a dead one is no
obstacle. A lock file is never removed: removing it would let two processes lock two different files. That of a
workflow is there because everything else that names its service can be changed in the workflow under the service.

Agents can remove whatever stands in the root, so its own directory is locked, the same one by whatever path it is
reached; the file in it holds no more than the holder's name. Roots inside one another do not collide: a workspace
is a direct child of one root only.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ..errors import StoreLocked, WorkspaceError
from .sqlite_errors import explain_system, not_a_file

ROOT_HOLDER = ".sortie.lock"

# Somebody who asks for the holder has the lock for an instant; a start must not be refused because of that.
_PATIENCE_SECONDS = 0.2
# A process that was being started when its holder was killed has the lock until it has become another program,
# which takes its time on a busy machine.
_PATIENCE_WITH_THE_DEAD = 10.0
_PAUSE_SECONDS = 0.02
# A FIFO or a device at the name must not make us wait, nor a link lead us elsewhere.
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ROOT_MODE = 0o750
_LONGEST_NAME = 16 * 1024


def held(database: Path, holder: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Hold the lock of this database; `holder` adds to what the lock file says of us."""
    return _held(lock_path(database), f"is using {database}", holder)


def workflow_held(workflow: Path, holder: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Hold the lock of this workflow; where nothing can be written beside it, it has none."""
    path = _workflow_lock(workflow)
    if not os.path.lexists(path) and not os.access(path.parent, os.W_OK):
        return nullcontext()
    return _held(path, f"works by {workflow}", holder)


def holder_of(database: Path) -> dict[str, Any] | None:
    """What the holder said of itself, or None when nobody holds the lock now."""
    return _holder(lock_path(database))


def workflow_holder_of(workflow: Path) -> dict[str, Any] | None:
    """The same of the service that works by this workflow."""
    return _holder(_workflow_lock(workflow))


@contextmanager
def _held(path: Path, doing: str, holder: Mapping[str, Any]) -> Iterator[None]:
    with _lock_file(path, os.O_RDWR | os.O_CREAT) as descriptor:
        if not _take(descriptor, lambda: _read(descriptor)):
            raise StoreLocked(f"{_name(_read(descriptor))} {doing}.", fix="Stop it first.")
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _said(holder), 0)
        except OSError as error:
            raise explain_system(error, path) from error
        yield


def _holder(path: Path) -> dict[str, Any] | None:
    if not os.path.lexists(path):
        return None
    with _lock_file(path, os.O_RDONLY) as descriptor:
        if _try(descriptor, fcntl.LOCK_SH):
            return None
        return _read(descriptor)


@contextmanager
def root_held(root: Path, holder: Mapping[str, Any]) -> Iterator[None]:
    """Hold the lock of this root of workspaces, which is made where it is missing."""
    with _failures_of(root):
        root.mkdir(mode=_ROOT_MODE, parents=True, exist_ok=True)
    with _open_root(root) as descriptor:
        with _failures_of(root):
            if not _take(descriptor, lambda: _root_holder(descriptor)):
                raise root_refusal(root, _root_holder(descriptor))
        _sign_root(descriptor, holder)
        yield


def root_holder_of(root: Path) -> dict[str, Any] | None:
    """What the holder of a root said of itself, or None when nobody holds it now."""
    if not root.is_dir():
        return None
    with _open_root(root) as descriptor, _failures_of(root):
        return None if _try(descriptor, fcntl.LOCK_SH) else _root_holder(descriptor)


def root_refusal(root: Path, holder: Mapping[str, Any]) -> WorkspaceError:
    return WorkspaceError(
        f"{_name(holder)} works in {root}.",
        fix="Stop it first, or give each workflow a workspace.root of its own.",
    )


def lock_path(database: Path) -> Path:
    real = database.resolve()
    return real.with_name(real.name + ".lock")


def _workflow_lock(workflow: Path) -> Path:
    real = workflow.resolve()
    return real.with_name(f".sortie.{real.name}.lock")


@contextmanager
def _lock_file(path: Path, flags: int) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | _CAREFUL, 0o600)
    except OSError as error:
        if path.is_symlink() or path.is_dir():
            raise not_a_file(path) from error
        raise explain_system(error, path) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise not_a_file(path)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _open_root(root: Path) -> Iterator[int]:
    with _failures_of(root):
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sign_root(descriptor: int, holder: Mapping[str, Any]) -> None:
    # Without a name the root is locked all the same: a full disk, or a folder in its place, is no reason to refuse.
    with suppress(OSError):
        with suppress(FileNotFoundError):
            os.unlink(ROOT_HOLDER, dir_fd=descriptor)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(ROOT_HOLDER, flags, 0o600, dir_fd=descriptor), "wb") as name:
            name.write(_said(holder))


def _root_holder(descriptor: int) -> dict[str, Any]:
    try:
        name = os.open(ROOT_HOLDER, os.O_RDONLY | _CAREFUL, dir_fd=descriptor)
    except OSError:
        return {}
    try:
        return _read(name) if stat.S_ISREG(os.fstat(name).st_mode) else {}
    finally:
        os.close(name)


@contextmanager
def _failures_of(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WorkspaceError(
            f"The root of workspaces {root} cannot be locked: {reason}.",
            fix="Set workspace.root to a directory on a local file system that this user can write.",
        ) from error


def _take(descriptor: int, holder: Callable[[], Mapping[str, Any]]) -> bool:
    begun = time.monotonic()
    while not _try(descriptor, fcntl.LOCK_EX):
        waited = time.monotonic() - begun
        if waited >= _PATIENCE_WITH_THE_DEAD or (waited >= _PATIENCE_SECONDS and not _is_dead(holder())):
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def _is_dead(holder: Mapping[str, Any]) -> bool:
    """Whether whoever signed is certainly gone; what nobody can tell from here counts as alive."""
    pid = holder.get("pid")
    if holder.get("host") != os.uname().nodename or type(pid) is not int or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _said(holder: Mapping[str, Any]) -> bytes:
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "since": since, **holder}).encode()


def _read(descriptor: int) -> dict[str, Any]:
    # Between taking the lock and writing to it the file may hold nothing, or half of something. Agents can write to
    # it, too: it may hold anything.
    try:
        return msgspec.json.decode(os.pread(descriptor, _LONGEST_NAME, 0), type=dict[str, str | int])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _name(holder: Mapping[str, Any]) -> str:
    if not holder:
        return "Another sortie"
    said = [f"{key} {holder.get(key, '?')}" for key in ("pid", "host", "since")]
    said += [f"{key} {holder[key]}" for key in ("workflow", "store") if key in holder]
    return f"Another sortie ({', '.join(said)})"
