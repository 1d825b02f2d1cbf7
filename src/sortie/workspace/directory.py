"""One issue's directory: a direct child of the fixed root, held by a descriptor so that it cannot be swapped.

A new workspace is unfinished until its `after_create` hook succeeded. The note of that is an empty file
`<root>/.incomplete/<key>`, made before the directory and removed by `mark_complete`; a workspace that still
has its note when it is opened is thrown away and made anew, because nobody knows how far its creation got. Agents
can write notes too, so one is believed only of a directory that is known and in which no agent ever worked.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from ..errors import WorkspaceError
from ..protocol.safefiles import open_directory
from ..protocol.tree_walk import Check, go_on, remove_entry, remove_tree
from .keys import workspace_key

NOTES = ".incomplete"
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


class Known(NamedTuple):
    """What is recorded of a workspace; an `inode` of 0 fits any. `used` says that an agent worked in it."""

    inode: int
    used: bool

    def fits(self, found: os.stat_result) -> bool:
        return self.inode in (0, found.st_ino)


class NotOurs(WorkspaceError):
    """Somebody else made what stands at `name` in the root."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        super().__init__(
            f"What stands at {root / name} was not made by this store, or something else took its place.",
            fix="Move it away; the next run makes it anew.",
        )


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


def open_workspace(root: Path, identifier: str, known: Known | None, check: Check) -> Workspace:
    """The workspace of an issue, made if there is none or only an unfinished one. Blocks; call it in a thread.

    Whatever else stands in its place, or in that of the notes, raises `NotOurs`.
    """
    key = workspace_key(identifier)
    try:
        root.mkdir(mode=_MODE, parents=True, exist_ok=True)
        resolved = root.resolve(strict=True)
        with open_directory(resolved) as root_fd:
            name = _in_the_way(root_fd, key, known)
            if name:
                raise NotOurs(resolved, name)
            created = _make_if_needed(root_fd, key, known, check)
            with open_directory(root_fd, key) as workspace_fd:
                return Workspace(resolved / key, os.dup(workspace_fd), created=created)
    except OSError as error:
        raise workspace_error(f"The workspace {root / key} cannot be opened", error) from error


class Root:
    """The directory of all workspaces as it was at the start; notices when another took its place."""

    def __init__(self, configured: Path) -> None:
        try:
            self.path = configured.resolve(strict=True)
            self._then = self.path.stat()
        except OSError as error:
            raise workspace_error(f"The workspaces in {configured} cannot be reached", error) from error
        self._configured = configured

    def verify(self) -> None:
        """Raise where the root is not what it was."""
        try:
            resolved = self._configured.resolve(strict=True)
            found = resolved.stat()
        except OSError as error:
            gone = f"{self._configured}, where the workspaces are, cannot be reached any more: {error.strerror}."
            raise WorkspaceError(gone, fix=_RESTORE) from error
        if resolved != self.path or not os.path.samestat(found, self._then):
            raise WorkspaceError(
                f"{self.path}, where the workspaces are, was replaced while the service runs: {self._configured} "
                f"leads to {resolved if resolved != self.path else 'another directory'} now.",
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


def forget_incomplete(root_fd: int, key: str) -> None:
    try:
        with open_directory(root_fd, NOTES) as notes:
            remove_entry(notes, key, go_on)
            os.fsync(notes)
    except FileNotFoundError:
        pass  # There was no note.


def _note_incomplete(root_fd: int, key: str) -> None:
    """On disk before anything else happens: after a power failure no unfinished workspace looks finished."""
    with open_directory(root_fd, NOTES) as notes:
        if _found(notes, key) is None:
            os.close(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=notes))
        os.fsync(notes)


def _in_the_way(root_fd: int, key: str, known: Known | None) -> str:
    """The name of what cannot be used and may be worth something; empty where nothing is in the way."""
    notes = _found(root_fd, NOTES)
    if notes and not stat.S_ISDIR(notes.st_mode):
        return NOTES
    found = _found(root_fd, key)
    is_ours = found is None or (known is not None and known.fits(found) and stat.S_ISDIR(found.st_mode))
    return "" if is_ours or _is_empty(root_fd, key) else key


def _make_if_needed(root_fd: int, key: str, known: Known | None, check: Check) -> bool:
    """Nothing is in the way: what stands at the key is known, or holds nothing."""
    with suppress(FileExistsError):
        os.mkdir(NOTES, _MODE, dir_fd=root_fd)
    if found := _found(root_fd, key):
        with open_directory(root_fd, NOTES) as notes:
            is_noted = _found(notes, key) is not None
        if known and known.fits(found) and (known.used or not is_noted):
            forget_incomplete(root_fd, key)
            return False
        _note_incomplete(root_fd, key)
        remove_tree(root_fd, key, check)
    else:
        _note_incomplete(root_fd, key)
    os.mkdir(key, _MODE, dir_fd=root_fd)
    return True


def _is_empty(directory: int, name: str) -> bool:
    """Whether it is a directory that holds nothing, such as a death just after its making leaves."""
    try:
        with open_directory(directory, name) as inner:
            opened: int = inner
            return not os.listdir(opened)
    except OSError:
        return False


def _found(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _changed(path: Path, how: str) -> WorkspaceError:
    return WorkspaceError(
        f"The workspace {path} is no longer the directory that was opened: {how}.",
        fix="Move away what is at that path; the next run makes the workspace anew.",
    )
