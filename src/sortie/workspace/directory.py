"""The directory that a run works in: held by a descriptor so that it cannot be swapped.

That of an issue is a direct child of the fixed root. Its name, the key, is one safe path component that no two
issues share: the identifier itself, or something that ends in `-` and a digest of it. An identifier that already
looks like the second form gets a digest of its own, so the two forms never meet.

A new workspace with an `after_create` hook is unfinished until that succeeded. The note of that is an empty file
`<root>/.incomplete/<key>`, made before the directory and removed by `mark_complete`; a workspace that still
has its note when it is opened is thrown away and made anew, because nobody knows how far its creation got. Agents
can write notes too, so one is believed only of a directory that is known and in which no agent ever worked.

A task folder has an inbox and an outbox besides. A shared checkout is a person's: it is opened as it is, nothing in
this package makes, marks, archives or removes it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import WorkspaceError
from ..protocol.safefiles import component, open_directory, open_inner
from ..protocol.tree_walk import Check, go_on, remove_entry, remove_tree

NOTES = ".incomplete"
INBOX = "inbox"
OUTBOX = "outbox"
# In the names of archives.
ARCHIVE_TIME = "%Y%m%dT%H%M%SZ"
LONGEST_PLAIN_KEY = 100
_KEPT_BEFORE_DIGEST = 80
_DIGEST_LENGTH = 10
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
_ENDS_LIKE_DIGEST = re.compile(rf"-[0-9a-f]{{{_DIGEST_LENGTH}}}\Z")

_MODE = 0o750
_LARGEST_INODE = 2**63 - 1
_FOLLOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC
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


def workspace_key(identifier: str) -> str:
    """The directory name for an issue: letters, digits, `.`, `_` and `-` only."""
    cleaned = _FORBIDDEN.sub("_", identifier)
    # Plain names with a leading dot are left to us: `.` and `..` have a meaning, others are our own directories.
    is_plain = cleaned == identifier and 0 < len(identifier) <= LONGEST_PLAIN_KEY and identifier[0] != "."
    if is_plain and not _ENDS_LIKE_DIGEST.search(identifier):
        return identifier
    digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{cleaned[:_KEPT_BEFORE_DIGEST]}-{digest}"


class Known(NamedTuple):
    """What is recorded of a workspace. An `inode` of 0 fits any directory; `used`: an agent worked in it."""

    inode: int
    used: bool

    def fits(self, found: os.stat_result) -> bool:
        return self.inode in (0, inode_of(found)) and stat.S_ISDIR(found.st_mode)


def inode_of(found: os.stat_result) -> int:
    """As it is recorded: file systems in the network have numbers that no database has."""
    return found.st_ino & _LARGEST_INODE


class NotOurs(WorkspaceError):
    """Somebody else made what stands at `name` in the root."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        super().__init__(
            f"What stands at {root / name} was not made by this store, or something else took its place.",
            fix="Move it away; the next run makes it anew.",
        )


class Workspace:
    """An open workspace. `created` says that it is new and `mark_complete` has to follow its `after_create`.

    `fd` is owned by it; `noted` says that there is a note of its being unfinished.
    """

    def __init__(self, path: Path, fd: int, *, created: bool, noted: bool = False) -> None:
        self.path = path
        self.fd = fd
        self.created = created
        self._noted = noted
        self._opened = os.fstat(fd)

    @property
    def key(self) -> str:
        return self.path.name

    @property
    def inode(self) -> int:
        return inode_of(self._opened)

    def verify(self) -> None:
        """Make sure that the path still leads to the directory we opened, and through no link."""
        try:
            found = self.path.lstat()
            # The kernel's name for the open directory leads through no link; so one look up is enough.
            if _path_of(self.fd) == self.path and os.path.samestat(found, self._opened):
                return
            real = self.path.resolve(strict=True)
        except OSError as error:
            raise _changed(self.path, error.strerror or "it is not there") from error
        if stat.S_ISLNK(found.st_mode):
            raise _changed(self.path, "a symbolic link took its place")
        if real != self.path:
            raise _changed(self.path, "there is a symbolic link on the way to it")
        if not os.path.samestat(found, self._opened):
            raise _changed(self.path, "something else took its place")

    def mark_complete(self) -> None:
        """From here on the workspace is kept. Needed for every new one, with or without a hook, before an agent.

        Does not wait for the disk: a note that a power failure brings back costs no more than what the hook did,
        because it is not believed of a workspace that an agent has worked in.
        """
        if self._noted:
            message = f"The workspace {self.path} cannot be marked complete"
            with _explained(message), open_directory(self.path.parent) as root_fd:
                _forget_incomplete(root_fd, self.key)

    def close(self) -> None:
        """Give up the descriptor; the directory stays. May be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_workspace(
    root: Path, identifier: str, known: Known | None, check: Check, *, has_hook: bool = True, key: str = ""
) -> Workspace:
    """The workspace of an issue, made if there is none or only an unfinished one. Blocks; call it in a thread.

    Its name is the `key`, if one is given: a source whose identifiers are names of directories says so.
    Whatever else stands in its place, or in that of the notes, raises `NotOurs`. Without a hook that prepares it
    (`has_hook`) a new workspace is complete as soon as it is there, and needs no note.
    """
    key = component(key or workspace_key(identifier))
    with _explained(f"The workspace {root / key} cannot be opened"):
        root_fd = _open_root(root)
        try:
            resolved = _path_of(root_fd)
            created = _make_if_needed(resolved, root_fd, key, known, check, has_hook=has_hook)
            return Workspace(resolved / key, open_inner(root_fd, key), created=created, noted=created and has_hook)
        finally:
            os.close(root_fd)


def open_shared_checkout(path: Path) -> Workspace:
    """A directory that is there already and belongs to a person; nothing is made, in it or beside it.

    Its `path` is where it really is, so that `verify` notices a link that comes on the way to it later.
    """
    with _explained(f"The shared checkout {path} cannot be opened"):
        descriptor = os.open(path, _FOLLOW)
    return Workspace(_path_of(descriptor), descriptor, created=False)


def make_task_folders(workspace: Workspace) -> None:
    """Inbox and outbox of a task, where they are missing; what else stands there raises."""
    for name in (INBOX, OUTBOX):
        with _explained(f"The {name} in {workspace.path} cannot be used"):
            with suppress(FileExistsError):
                os.mkdir(name, _MODE, dir_fd=workspace.fd)
            os.close(open_inner(workspace.fd, name))


def open_existing(path: Path) -> Workspace:
    """A workspace as it is, finished or not; nothing is made."""
    with _explained(f"The workspace {path} cannot be opened"), open_directory(path.parent) as parent:
        return Workspace(path, open_inner(parent, path.name), created=False)


class Root:
    """The directory of all workspaces as it was at the start; notices when another took its place."""

    def __init__(self, configured: Path) -> None:
        with _explained(f"The workspaces in {configured} cannot be reached"):
            self.path = configured.resolve(strict=True)
            self._then = self.path.stat()
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


def workspace_error(message: str, error: Exception) -> WorkspaceError:
    """The message with the system's reason, and the fix where there is a usual one."""
    if not isinstance(error, OSError) or error.errno is None:
        return WorkspaceError(f"{message}: {error}.")
    where = f" ({error.filename})" if error.filename else ""
    return WorkspaceError(f"{message}: {error.strerror}{where}.", fix=_FIXES.get(error.errno, ""))


@contextmanager
def _explained(message: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise workspace_error(message, error) from error


def _forget_incomplete(root_fd: int, key: str) -> None:
    with suppress(FileNotFoundError), open_directory(root_fd, NOTES) as notes:
        remove_entry(notes, key, go_on)


def _note_incomplete(root_fd: int, key: str) -> None:
    """On disk before anything else happens: after a power failure no unfinished workspace looks finished."""
    with open_directory(root_fd, NOTES) as notes:
        with suppress(FileExistsError):
            os.close(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=notes))
        os.fsync(notes)


def _make_if_needed(
    root: Path, root_fd: int, key: str, known: Known | None, check: Check, *, has_hook: bool
) -> bool:
    """Whether it was made. What cannot be used and may be worth something is in the way, and raises."""
    notes, found = _found(root_fd, NOTES), _found(root_fd, key)
    if notes and not stat.S_ISDIR(notes.st_mode):
        raise NotOurs(root, NOTES)
    if found:
        ours = known if known and known.fits(found) else None
        if not ours and not _is_empty(root_fd, key):
            raise NotOurs(root, key)
        is_noted = notes is not None and _is_noted(root_fd, key)
        if ours and (ours.used or not is_noted):
            if is_noted:
                _forget_incomplete(root_fd, key)
            return False
    if has_hook:
        if not notes:
            with suppress(FileExistsError):  # another run may make it at the same time
                os.mkdir(NOTES, _MODE, dir_fd=root_fd)
        _note_incomplete(root_fd, key)
    if found:
        remove_tree(root_fd, key, check)
    os.mkdir(key, _MODE, dir_fd=root_fd)
    if notes and not has_hook:
        _forget_incomplete(root_fd, key)  # what an earlier hook did not finish is gone
    return True


def _open_root(root: Path) -> int:
    try:
        return os.open(root, _FOLLOW)
    except FileNotFoundError:
        root.mkdir(mode=_MODE, parents=True, exist_ok=True)
        return os.open(root, _FOLLOW)


def _path_of(descriptor: int) -> Path:
    """Where an open directory is, as the kernel names it: through no link."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _is_noted(root_fd: int, key: str) -> bool:
    with open_directory(root_fd, NOTES) as notes:
        return _found(notes, key) is not None


def _is_empty(directory: int, name: str) -> bool:
    """Whether it is a directory that holds nothing, such as a death just after its making leaves."""
    with suppress(OSError), open_directory(directory, name) as opened:
        inner: int = opened
        return not os.listdir(inner)
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
