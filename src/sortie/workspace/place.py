"""One issue's directory: a direct child of the fixed root, held by a descriptor so that it cannot be swapped.

A new workspace is unfinished until its `after_create` hook succeeded. The note of that is an empty file
`<root>/.incomplete/<key>`, made before the directory and removed by `mark_complete`; a workspace that still
has its note when it is opened is thrown away and made anew, because nobody knows how far its creation got.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from ..errors import WorkspaceError
from ..protocol.safefiles import open_directory
from ..protocol.trees import Check, go_on, remove_tree
from .keys import workspace_key

_INCOMPLETE = ".incomplete"
_MODE = 0o750
_RESTORE = "Put the directory back, or restart the service if you meant it."

_FIXES = {
    errno.ENOSPC: "Free space on that disk.",
    errno.EDQUOT: "Free space, or raise the disk quota of this user.",
    errno.EACCES: "Give this user access to it.",
    errno.EPERM: "Give this user access to it.",
    errno.EROFS: "Use a directory that can be written.",
    errno.ELOOP: "Remove the link; only real directories are used.",
    errno.EXDEV: "Unmount it; nothing behind a mount point is archived or removed.",
    errno.ENOTDIR: "Move away what stands there; a directory is needed.",
    errno.EEXIST: "Move away what stands there; a directory is needed.",
}


class NotOurs(WorkspaceError):
    """Somebody else made the directory that stands at the path."""


class Workspace:
    """An open workspace. `created` says that it is new and `mark_complete` has to follow its `after_create`."""

    def __init__(self, path: Path, fd: int, *, created: bool) -> None:
        self.path = path
        self.fd = fd
        self.created = created

    @property
    def key(self) -> str:
        return self.path.name

    @property
    def inode(self) -> int:
        return os.fstat(self.fd).st_ino

    def verify(self) -> None:
        """Make sure that the path still leads to the directory we opened, and through no link."""
        try:
            found = self.path.lstat()
            real = self.path.resolve(strict=True)
        except OSError as error:
            raise _changed(self.path, error.strerror or "it is not there") from error
        if stat.S_ISLNK(found.st_mode):
            raise _changed(self.path, "a symbolic link took its place")
        if real != self.path:
            raise _changed(self.path, "there is a symbolic link on the way to it")
        if not os.path.samestat(found, os.fstat(self.fd)):
            raise _changed(self.path, "something else took its place")

    def mark_complete(self) -> None:
        """From here on the workspace is kept. Needed for every new one, with or without a hook, before an agent."""
        try:
            with open_directory(self.path.parent) as root_fd:
                forget_incomplete(root_fd, self.key)
        except OSError as error:
            raise workspace_error(f"The workspace {self.path} cannot be marked complete", error) from error

    def close(self) -> None:
        """Give up the descriptor; the directory stays. May be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_anybodys(path: Path, inode: int) -> bool:  # noqa: ARG001 - the answer is the same for all
    return True


def open_workspace(
    root: Path, identifier: str, is_ours: Callable[[Path, int], bool] = is_anybodys, check: Check = go_on
) -> Workspace:
    """The workspace of an issue, made if there is none or only an unfinished one. Blocks; call it in a thread.

    A finished one that is not ours, by its path and inode, raises `NotOurs`: `after_create` never ran in it.
    """
    key = workspace_key(identifier)
    try:
        root.mkdir(mode=_MODE, parents=True, exist_ok=True)
        resolved = root.resolve(strict=True)
        with open_directory(resolved) as root_fd:
            created = _make_if_needed(root_fd, key, check)
            with open_directory(root_fd, key) as workspace_fd:
                if not created and not is_ours(resolved / key, os.fstat(workspace_fd).st_ino):
                    raise _not_ours(resolved / key)
                return Workspace(resolved / key, os.dup(workspace_fd), created=created)
    except OSError as error:
        raise workspace_error(f"The workspace {root / key} cannot be opened", error) from error


class Roots:
    """Remembers which directory each workspace root was at first sight, and notices when another took its place."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[Path, os.stat_result]] = {}

    def verify(self, root: Path) -> None:
        """Raise where the root is not what it was; at first sight it is made if need be. Blocks."""
        try:
            if root not in self._seen:
                root.mkdir(mode=_MODE, parents=True, exist_ok=True)
            resolved = root.resolve(strict=True)
            found = resolved.stat()
        except OSError as error:
            if root not in self._seen:
                raise workspace_error(f"The workspaces in {root} cannot be reached", error) from error
            gone = f"{root}, where the workspaces are, cannot be reached any more: {error.strerror}."
            raise WorkspaceError(gone, fix=_RESTORE) from error
        before, then = self._seen.setdefault(root, (resolved, found))
        if resolved != before or not os.path.samestat(found, then):
            raise WorkspaceError(
                f"{before}, where the workspaces are, was replaced while the service runs: {root} leads to "
                f"{resolved if resolved != before else 'another directory'} now.",
                fix=_RESTORE,
            )


def open_existing(path: Path) -> Workspace:
    """A workspace as it is, finished or not; nothing is made."""
    try:
        with open_directory(path.parent, path.name) as workspace_fd:
            return Workspace(path, os.dup(workspace_fd), created=False)
    except OSError as error:
        raise workspace_error(f"The workspace {path} cannot be opened", error) from error


def workspace_error(message: str, error: Exception) -> WorkspaceError:
    """The message with the system's reason, and the fix where there is a usual one."""
    if not isinstance(error, OSError) or error.errno is None:
        return WorkspaceError(f"{message}: {error}.")
    where = f" ({error.filename})" if error.filename else ""
    return WorkspaceError(f"{message}: {error.strerror}{where}.", fix=_FIXES.get(error.errno, ""))


def note_incomplete(root_fd: int, key: str) -> None:
    """On disk before anything else happens: after a power failure no unfinished workspace looks finished."""
    _make_directory(root_fd, _INCOMPLETE)
    with open_directory(root_fd, _INCOMPLETE) as notes:
        os.close(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=notes))
        os.fsync(notes)


def forget_incomplete(root_fd: int, key: str) -> None:
    try:
        with open_directory(root_fd, _INCOMPLETE) as notes:
            os.unlink(key, dir_fd=notes)
            os.fsync(notes)
    except FileNotFoundError:
        pass  # There was no note.


def _make_if_needed(root_fd: int, key: str, check: Check) -> bool:
    _make_directory(root_fd, _INCOMPLETE)
    if _exists(root_fd, key):
        with open_directory(root_fd, _INCOMPLETE) as notes:
            if not _exists(notes, key):
                return False
        remove_tree(root_fd, key, check)
    else:
        note_incomplete(root_fd, key)
    os.mkdir(key, _MODE, dir_fd=root_fd)
    return True


def _make_directory(parent: int, name: str) -> None:
    try:
        os.mkdir(name, _MODE, dir_fd=parent)
    except FileExistsError:
        pass  # Whether it is a directory shows when it is opened.


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _not_ours(path: Path) -> NotOurs:
    return NotOurs(
        f"The directory {path} was not made by this store, or another one took its place.",
        fix="Move it away; the next run makes the workspace anew.",
    )


def _changed(path: Path, how: str) -> WorkspaceError:
    return WorkspaceError(
        f"The workspace {path} is no longer the directory that was opened: {how}.",
        fix="Move away what is at that path; the next run makes the workspace anew.",
    )
