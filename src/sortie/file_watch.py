"""Tells within a moment that one of some files changed, whoever changed it and however.

The kernel tells us where it can (inotify). Looking at the files now and then goes on beside it: for file systems
that others write to over a network, where the kernel has no room for another watch, and on other systems. A change
may be told more than once; none is kept back.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import asyncio

POLL_EVERY = 0.25
# Where the kernel tells, for what it is not told itself: files of another machine.
NET_EVERY = 1.0

# Two changes within one tick of the file system's clock can look the same from outside. A file that changed
# so recently is reported once more, when its time stamps can be trusted.
_CLOCK_TICK_NS = 50_000_000

_ATTRIB, _CLOSE_WRITE = 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _Q_OVERFLOW, _IGNORED = 0x400, 0x800, 0x4000, 0x8000

# In a folder only the coming and going of names, so that a busy neighbour of the file costs nothing.
_IN_FOLDER = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
# Of a file when somebody has written it, not while: told at each piece, we would mostly read half a file. Who
# writes and keeps it open is found by looking.
_IN_FILE = _ATTRIB | _CLOSE_WRITE | _DELETE_SELF | _MOVE_SELF

_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024
_MOST_LINKS = 40

Signature = tuple[int, int, int, int]


class FileWatch:
    """Watches paths; a missing file is a look too. Two ways to use it:

    `changed()` tells which files look different from the last time it was asked. Between `start()` and `close()`,
    or as a context manager, `on_change` is called in the running event loop at each change instead.
    `clock` gives the time since the epoch in nanoseconds, as the file system does.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        on_change: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._paths = [*paths]
        self._on_change = on_change
        self._clock = clock
        self._look()
        self._kernel: _Inotify | None = None
        self._timer: asyncio.Handle | None = None

    def changed(self) -> set[Path]:
        before, recent = self._seen, self._recent
        self._look()
        return {path for path in self._paths if self._seen[path] != before[path]} | recent

    def start(self) -> None:
        """A change since this watch was made counts."""
        import asyncio  # late: commands that only load a workflow have no event loop

        self._loop = asyncio.get_running_loop()
        try:
            self._kernel = _Inotify()
        except OSError:
            pass  # none on this system, or no more for this user: looking has to do
        else:
            self._kernel.watch(self._paths)
            self._loop.add_reader(self._kernel.descriptor, self._told)
        self._timer = self._loop.call_soon(self._poll)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.descriptor)
            self._kernel.close()
            self._kernel = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def _poll(self) -> None:
        self._timer = self._loop.call_later(POLL_EVERY if self._kernel is None else NET_EVERY, self._poll)
        if self.changed():
            if self._kernel is not None:
                self._kernel.watch(self._paths)
            self._on_change()

    def _told(self) -> None:
        """However many events there are, they are one change."""
        assert self._kernel is not None
        if self._kernel.read():
            # Folders and links may be others now. What changes before they are watched is seen by whoever is told.
            self._kernel.watch(self._paths)
            self._look()
            self._recent.clear()  # whatever changes now is told of
            self._on_change()

    def _look(self) -> None:
        self._seen = {path: _signature(path) for path in self._paths}
        self._recent = {
            path
            for path, signature in self._seen.items()
            if signature is not None and 0 <= self._clock() - signature[0] < _CLOCK_TICK_NS
        }


class _Inotify:
    """The kernel's watch over some files, over the folders that they are in, and over all links on the way."""

    def __init__(self) -> None:
        import ctypes  # late: programs that only look need no foreign functions

        self._libc: Any = ctypes.CDLL(None)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError("this system has no inotify")
        self.descriptor: int = self._libc.inotify_init1(_NONBLOCK_CLOEXEC)
        if self.descriptor < 0:
            raise OSError("no inotify instance")
        # By the numbers of their watches: the files, and the names of interest in each folder.
        self._files: set[int] = set()
        self._names: dict[int, set[bytes]] = {}

    def close(self) -> None:
        os.close(self.descriptor)

    def watch(self, paths: list[Path]) -> None:
        """Watch what leads to these paths now, and nothing else. What cannot be watched is left to looking."""
        before = None
        # What came into being before its folder was watched is found by looking again.
        while (steps := {step for path in paths for step in _steps(path)}) != before:
            names: dict[int, set[bytes]] = {}
            for folder, name in steps:
                names.setdefault(self._add(folder, _IN_FOLDER), set()).add(os.fsencode(name))
            before = steps
        files = {self._add(path, _IN_FILE) for path in paths}
        for number in {*self._names, *self._files} - names.keys() - files:
            self._libc.inotify_rm_watch(self.descriptor, number)
        self._names, self._files = names, files

    def read(self) -> bool:
        """Take what events there are; whether any of them is about a path that is watched."""
        concerned = False
        while True:
            try:
                events = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                return concerned
            concerned = concerned or any(self._concerns(*event) for event in _events(events))

    def _concerns(self, number: int, mask: int, name: bytes) -> bool:
        if mask & _Q_OVERFLOW:
            return True  # events were dropped: it may have been any of them
        if mask & _IGNORED:
            return False  # the end of a watch, which another event told of unless it was we who ended it
        ended = mask & (_DELETE_SELF | _MOVE_SELF) and number in self._names
        return number in self._files or name in self._names.get(number, ()) or bool(ended)

    def _add(self, path: str | Path, mask: int) -> int:
        number: int = self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), mask)
        return number


def _events(raw: bytes) -> Iterator[tuple[int, int, bytes]]:
    start = 0
    while start < len(raw):
        number, mask, _, length = _EVENT.unpack_from(raw, start)
        start += _EVENT.size
        yield number, mask, raw[start : start + length].rstrip(b"\0")
        start += length


def _steps(path: Path) -> Iterator[tuple[str, str]]:
    """The folder and the name of each link on the way to a file, of what is missing there, and of the file."""
    folder, links = "/", 0
    remaining = [*reversed((Path.cwd() / path).parts[1:])]
    while remaining:
        name = remaining.pop()
        if name == "..":
            folder = os.path.dirname(folder)  # noqa: PTH120 - it has no links in it
            continue
        step = os.path.join(folder, name)  # noqa: PTH118 - paths are compared often
        target = None
        with suppress(OSError):
            target = os.readlink(step)  # noqa: PTH115
        if target is None and remaining and os.path.isdir(step):  # noqa: PTH112
            folder = step
            continue
        yield folder, name
        links += 1
        if target is None or links > _MOST_LINKS:
            return
        parts = Path(target).parts
        if target.startswith("/"):
            folder, parts = "/", parts[1:]
        remaining += reversed(parts)


def _signature(path: Path) -> Signature | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
