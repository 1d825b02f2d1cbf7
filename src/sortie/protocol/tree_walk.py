"""Trees that an agent can write, from the top down: never through a link, never onto another mount, however deep.

One descriptor moves through the tree. It goes down by names, each opened without following links, and up by `..`,
which must be the directory it came from. So each directory costs the same few steps, and no path gets too long.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from .safefiles import UnsafeFile, component, open_directory

_HANDLE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UP = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC

_ABOUT = 4096  # more than enough for the lines up to the number of the mount

Check = Callable[[], None]


def go_on() -> None:
    """The check of those who are never interrupted; others raise."""


class Descent:
    """A place in the tree below `parent`; `names` lead to it, `fd` is its directory.

    A mount point is refused. The device tells too little (a bind mount may show the same file system), so the
    kernel's number of the mount is compared.
    """

    def __init__(self, parent: int) -> None:
        self.fd = os.dup(parent)
        self.names: list[str] = []
        self._mount = _mount_of(parent)
        self._above: list[tuple[int, int]] = []

    def path(self, *inner: str) -> str:
        """From `parent` to this place, or to what is `inner` there."""
        return "/".join((*self.names, *inner))

    def enter(self, name: str, *, to_change: bool = False) -> None:
        """Go down; `to_change` gives us the rights to change a directory of ours that forbids it."""
        if to_change:
            self._allow_changes(name)
        with open_directory(self.fd, name) as inner:
            self.refuse_mount(inner, name)
            self._above.append(_identity(self.fd))
            self.names.append(name)
            os.dup2(inner, self.fd, inheritable=False)

    def leave(self) -> str:
        """Go up again; the answer is the name of what was left."""
        outer = os.open("..", _UP, dir_fd=self.fd)
        os.dup2(outer, self.fd, inheritable=False)
        os.close(outer)
        if _identity(self.fd) != self._above.pop():
            raise UnsafeFile(errno.ESTALE, "The directory was moved meanwhile", ".")
        return self.names.pop()

    def walk(self, names: list[str], into: Callable[[str], list[str]], out: Callable[[], object]) -> None:
        """Through these directories and all below, each before what is in it; the last name is the first.

        `into` enters one and answers with the names in it to go on with, `out` leaves one that is done. An error of
        theirs names the whole way to its entry, in a form that can be shown.
        """
        pending = [names]
        while True:
            try:
                if pending[-1]:
                    pending.append(into(pending[-1].pop()))
                    continue
                pending.pop()
                if not pending:
                    return
                out()
            except OSError as error:
                if not isinstance(error.filename, str):
                    raise
                shown = ascii(self.path(error.filename))[1:-1]
                raise type(error)(error.errno, error.strerror, shown) from error

    def refuse_mount(self, descriptor: int, name: str) -> None:
        """Raise where an entry of this directory, opened as `descriptor`, belongs to another mount."""
        if _mount_of(descriptor) != self._mount:
            raise UnsafeFile(errno.EXDEV, "A file system is mounted there", name)

    def _allow_changes(self, name: str) -> None:
        handle = os.open(name, _HANDLE, dir_fd=self.fd)
        try:
            if os.fstat(handle).st_mode & 0o700 != 0o700:
                self.refuse_mount(handle, name)
                # fchmod takes no O_PATH descriptor; its name in /proc leads to this very directory and no other.
                Path(f"/proc/self/fd/{handle}").chmod(0o700)
        finally:
            os.close(handle)

    def __enter__(self) -> Descent:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.fd)


def remove_tree(parent: int, name: str, check: Check = go_on) -> None:
    """Remove a directory and all below it, also where modes of our own directories forbid it.

    At a mount point it stops with an error that names it. `check` is called before each step.
    """
    with Descent(parent) as place:

        def into(name: str) -> list[str]:
            check()
            place.enter(name, to_change=True)
            inner = []
            with os.scandir(place.fd) as found:
                entries = list(found)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
                else:
                    check()
                    os.unlink(entry.name, dir_fd=place.fd)
            return inner

        def out() -> None:
            check()
            os.rmdir(place.leave(), dir_fd=place.fd)

        place.walk([component(name)], into, out)


def remove_entry(parent: int, name: str, check: Check) -> None:
    """Remove whatever stands there, a directory with all below it."""
    if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        remove_tree(parent, name, check)
    else:
        os.unlink(component(name), dir_fd=parent)


def refuse_changes(parent: int, name: str, since_ns: int, check: Check) -> None:
    """Raise where something at `name` or below changed at that moment of the file system's clock, or later.

    Nobody can set the time of a change back. That of the topmost entry changes when it is renamed, as we do; there
    the time of its content has to do.
    """

    def refuse_if(changed_ns: int, entry: str) -> None:
        if changed_ns >= since_ns:
            raise OSError(errno.EBUSY, "It changed while it was archived", entry)

    top = os.stat(name, dir_fd=parent, follow_symlinks=False)
    refuse_if(top.st_mtime_ns, name)
    if not stat.S_ISDIR(top.st_mode):
        return
    with Descent(parent) as place:

        def into(name: str) -> list[str]:
            place.enter(name)
            inner = []
            with os.scandir(place.fd) as entries:
                for entry in entries:
                    check()
                    refuse_if(entry.stat(follow_symlinks=False).st_ctime_ns, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        inner.append(entry.name)
            return inner

        place.walk([name], into, place.leave)


def _mount_of(descriptor: int) -> bytes:
    """The number of the mount through which something was opened."""
    about = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        known = os.read(about, _ABOUT)
    finally:
        os.close(about)
    return known.partition(b"mnt_id:")[2].split(b"\n")[0].strip()


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
