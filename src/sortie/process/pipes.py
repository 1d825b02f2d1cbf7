"""Our ends of the pipes to a process. They never block the loop, and nobody waits on one for ever.

Descendants of a process can hold its ends of the pipes long after it is gone, so the end of the process, and
not only the end of the pipe, ends the wait.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import AsyncGenerator

import anyio
from anyio.lowlevel import checkpoint

from .lines import LINE_LIMIT, LineSplitter

_CHUNK = 64 * 1024
_LINES_BETWEEN_CHECKPOINTS = 256

# What writers that outlive the process still get: this long between two pieces of output, this long in all.
_QUIET = 0.25
_DRAIN = 1.0


class _Pipe:
    """A descriptor that it owns, and at most one task that waits for it."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._closed = False
        self._waiting: anyio.CancelScope | None = None

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            anyio.notify_closing(self._fd)
            os.close(self._fd)

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()


class Input(_Pipe):
    """The writing end: the standard input of a process."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._unread = False

    async def send(self, data: bytes) -> None:
        """Write all of it, unless the reader goes away, which is its right and no error."""
        rest = memoryview(data)
        while rest and not self._closed and not self._unread:
            try:
                rest = rest[os.write(self._fd, rest[:_CHUNK]) :]
            except BlockingIOError:
                await self._wait()
            except BrokenPipeError:
                self._unread = True
            else:
                await checkpoint()

    def process_gone(self) -> None:
        self._unread = True
        self._wake()

    async def _wait(self) -> None:
        with anyio.CancelScope() as self._waiting:
            try:
                await anyio.wait_writable(self._fd)
            except anyio.ClosedResourceError:
                pass  # closed while we waited; the loop above sees it
        self._waiting = None


class Output(_Pipe):
    """The reading end. What the process itself wrote is delivered in full; its descendants are heard while they
    talk, but cannot keep the reader.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._drain_until: float | None = None
        self._owed = 0
        self._quiet = False

    async def lines(self, limit: int = LINE_LIMIT) -> AsyncGenerator[bytes]:
        splitter = LineSplitter(limit)
        while chunk := await self._chunk():
            for count, line in enumerate(splitter.feed(chunk), 1):
                yield line
                if count % _LINES_BETWEEN_CHECKPOINTS == 0:
                    await checkpoint()
        for line in splitter.finish():
            yield line

    def process_gone(self) -> None:
        """All that the process wrote is in the pipe now; from here on the reader has little patience."""
        if self._closed:
            return
        self._owed = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, b"\0" * 4))[0]
        self._drain_until = anyio.current_time() + _DRAIN
        self._wake()

    async def _chunk(self) -> bytes:
        await checkpoint()
        while not self._over():
            try:
                chunk = os.read(self._fd, _CHUNK)
            except BlockingIOError:
                await self._wait()
            else:
                self._owed -= len(chunk)
                return chunk
        return b""

    def _over(self) -> bool:
        if self._closed or self._quiet:
            return True
        late = self._drain_until is not None and anyio.current_time() > self._drain_until
        return late and self._owed <= 0

    async def _wait(self) -> None:
        patience = None if self._drain_until is None else _QUIET
        with anyio.move_on_after(patience) as self._waiting:
            try:
                await anyio.wait_readable(self._fd)
            except anyio.ClosedResourceError:
                pass  # closed while we waited; `_over` knows
        self._quiet = patience is not None and self._waiting.cancelled_caught
        self._waiting = None
