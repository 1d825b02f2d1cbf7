"""Removing a workspace: first a complete archive, then out of everybody's reach, and only then the removal.

What was archived is moved to a name of ours in the root, which is one step and frees its place at once. It is
removed there if nothing in it changed since the archive was begun; else it goes back, and the archive goes. So
whatever has such a name is in an archive, and whoever finds it removes it without another one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import threading
import time
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..errors import WorkspaceError
from ..protocol.safefiles import UnsafeFile, open_directory, open_regular
from ..protocol.tree_walk import Check, go_on, refuse_changes, remove_entry
from .directory import ARCHIVE_TIME, NOTES, Known, NotOurs, Workspace, open_workspace, workspace_error

_ARCHIVE = re.compile(r".+-(\d{8}T\d{6}Z)(-\d+)?\.tar\.gz")
_UNFINISHED_ARCHIVE = re.compile(r"\A\..+-\d{8}T\d{6}Z\.tar\.gz\.[0-9a-f]{16}\.tmp")
# No key has a tilde.
_ARCHIVED = re.compile(r"\A\..+~[0-9a-f]{16}")
_TICK_SECONDS = 0.001
# The notes are of all workspaces; of two runs that find something in their place one moves it.
_THE_NOTES = threading.Lock()
# Between its move and the last look at it a workspace has a name as if it were archived, and may still go back.
_MOVING = threading.Lock()


def archive_workspace(
    root: Path, key: str, archive_dir: Path, name: str, check: Check, confirm: Check = go_on
) -> Path | None:
    """Archive a workspace as `<key>-<time>.tar.gz` and take it from its place. None if there is none. Blocks.

    When that fails, or `confirm` raises, which is called between the two, the workspace stays and there is no
    archive. What was taken away is removed by `remove_archived`. `root` is a path without links. `name`, that of
    the issue, is kept in the archive's comment, because a key does not always show it.
    """
    from tarfile import TarError  # nothing else of a run needs it

    from .archive import make_archive

    workspace = root / key
    if not os.path.lexists(workspace):
        return None
    try:
        if root.resolve(strict=True) != root:
            raise UnsafeFile(errno.ELOOP, "Symbolic link refused", str(root))
        with open_directory(root) as root_fd:
            since_ns = _moment(root_fd)
            archive = make_archive(root_fd, key, archive_dir, f"Workspace of {name}", check)
            try:
                confirm()
                with _MOVING:
                    _move_away(root_fd, key, since_ns, check)
            except BaseException:
                archive.unlink(missing_ok=True)
                raise
            return archive
    except (OSError, TarError) as error:
        message = f"The workspace {workspace} stays, because it could not be archived in {archive_dir}"
        raise workspace_error(message, error) from error


def claim_workspace(
    root: Path,
    identifier: str,
    known: Known | None,
    archive_dir: Path,
    check: Check,
    *,
    has_hook: bool = True,
    key: str = "",
) -> tuple[Workspace, dict[str, Path]]:
    """Open the workspace of an issue; what is not ours goes into the archive first, by its name in the root."""
    moved: dict[str, Path] = {}
    while True:
        try:
            return open_workspace(root, identifier, known, check, has_hook=has_hook, key=key), moved
        except NotOurs as error:
            if error.name in moved:
                raise  # somebody puts it there again and again
            with _THE_NOTES if error.name == NOTES else nullcontext():
                if error.name == NOTES and _may_be_used(root / NOTES):
                    continue  # another run has moved away what was there
                comment = f"{identifier}, not made by us"
                archive = archive_workspace(root.resolve(), error.name, archive_dir, comment, check)
            if archive:
                moved[error.name] = archive
            remove_archived(root.resolve(), check)


def remove_archived(root: Path, check: Check) -> list[WorkspaceError]:
    """Remove what is left of archived workspaces; the answer says what cannot be removed, and why."""
    problems = []
    with open_directory(root) as opened:
        root_fd: int = opened
        with _MOVING:
            archived = sorted(filter(_ARCHIVED.fullmatch, os.listdir(root_fd)))
        for name in archived:
            try:
                remove_entry(root_fd, name, check)
            except FileNotFoundError:
                pass  # somebody else removes it at the same time
            except OSError as error:
                reason = f"{error.strerror} ({error.filename})"
                message = f"{root / name}, the rest of a workspace that is in the archive, stays: {reason}."
                problems.append(WorkspaceError(message, fix="Remove it by hand."))
    return problems


def prune(archive_dir: Path, older_than_days: float, now: float) -> list[Path]:
    """Delete archives made longer ago, and what interrupted ones left; what is not a file of ours stays."""
    limit = (datetime.fromtimestamp(now, UTC) - timedelta(days=older_than_days)).strftime(ARCHIVE_TIME)
    removed = []
    for path in sorted(archive_dir.iterdir()) if archive_dir.is_dir() else ():
        ours = _ARCHIVE.fullmatch(path.name)
        is_old = ours and ours[1] < limit and stat.S_ISREG(path.lstat().st_mode)
        if is_old or (_UNFINISHED_ARCHIVE.fullmatch(path.name) and _is_abandoned(path)):
            with suppress(OSError):
                path.unlink()
                removed.append(path)
    return removed


def workspace_of(root: Path, key: str, known: Known | None) -> Path | None:
    """Where a workspace is, for its removal: None where there is nothing; what is not known by its inode raises."""
    path = root / key
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if known is None or not known.fits(found):
        raise NotOurs(root, key)
    return path


def _may_be_used(notes: Path) -> bool:
    try:
        return stat.S_ISDIR(notes.lstat().st_mode)
    except FileNotFoundError:
        return True


def _moment(root_fd: int) -> int:
    """The time as the root's file system tells it: all changes from now on have this one or a later one.

    Its clock goes in steps; what changed before this call must not seem to have changed after it.
    """
    name = f".{secrets.token_hex(8)}.tmp"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=root_fd)
    try:
        begun = moment = os.fstat(descriptor).st_ctime_ns
        while moment <= begun:
            begun = moment  # a clock that was set back begins anew
            time.sleep(_TICK_SECONDS)
            os.utime(descriptor)
            moment = os.fstat(descriptor).st_ctime_ns
        return moment
    finally:
        os.close(descriptor)
        os.unlink(name, dir_fd=root_fd)


def _move_away(root_fd: int, key: str, since_ns: int, check: Check) -> None:
    """Checked before too: a death between move and check must leave no more than a moment's changes in doubt."""
    refuse_changes(root_fd, key, since_ns, check)
    name = f".{key}~{secrets.token_hex(8)}"
    os.rename(key, name, src_dir_fd=root_fd, dst_dir_fd=root_fd)
    try:
        refuse_changes(root_fd, name, since_ns, check)
    except BaseException:
        try:
            os.rename(name, key, src_dir_fd=root_fd, dst_dir_fd=root_fd)
        except OSError:  # somebody took its place meanwhile
            os.rename(name, f"{name}-changed", src_dir_fd=root_fd, dst_dir_fd=root_fd)
        raise


def _is_abandoned(path: Path) -> bool:
    """Whoever writes an archive holds a lock on it, which ends with its process."""
    with suppress(OSError), open_directory(path.parent) as directory, open_regular(directory, path.name) as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    return False
