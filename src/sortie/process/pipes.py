"""Our ends of the pipes to a process. They never block the loop, and nobody waits on one for ever.

Descendants of a process can hold its ends of the pipes long after it is gone, so the end of the process, and
not only the end of the pipe, ends the wait. Output is cut into lines; memory stays bounded whatever is written.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import AsyncGenerator

import anyio
from anyio.lowlevel import checkpoint

LINE_LIMIT = 1024 * 1024
TRUNCATED = " …[truncated]".encode()

_CHUNK = 64 * 1024
_LINES_BETWEEN_CHECKPOINTS = 256
_CARRIAGE_RETURN = 0x0D

# What writers that outlive the process still get: this long between two pieces of output, this long in all.
_QUIET = 0.25
_DRAIN = 1.0


class LineSplitter:
    """Cuts a stream into lines at 0x0A, without the 0x0A and one 0x0D before it.

    A line over `limit` is delivered once, cut and marked, as soon as it is over; the rest of it is not kept.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()
        self._dropping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        # Only the first piece continues something; if the chunk is within the limit, so are all other lines in it.
        careful = 1 if len(chunk) <= self._limit else len(ended)
        for piece in ended[:careful]:
            self._hold(piece, lines)
            if not self._dropping:
                lines.append(self._take())
            self._dropping = False
        lines += [piece.removesuffix(b"\r") for piece in ended[careful:]]
        self._hold(rest, lines)
        return lines

    def finish(self) -> list[bytes]:
        """The last line, if it had no newline."""
        return [self._take()] if self._held else []

    def _hold(self, piece: bytes, lines: list[bytes]) -> None:
        if self._dropping:
            return
        # One byte more than the limit, because a 0x0D at the end of a line does not count.
        room = self._limit + 1 - len(self._held)
        self._held += piece[:room]
        if len(piece) > room or (len(self._held) > self._limit and self._held[-1] != _CARRIAGE_RETURN):
            lines.append(bytes(self._held[: self._limit]) + TRUNCATED)
            self._held.clear()
            self._dropping = True

    def _take(self) -> bytes:
        line = bytes(self._held).removesuffix(b"\r")
        self._held.clear()
        return line


class Input:
    """The writing end: the standard input of a process. At most one task writes to it."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._closed = False
        self._unread = False
        self._waiting: anyio.CancelScope | None = None

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
                if rest:
                    await checkpoint()

    def process_gone(self) -> None:
        self._unread = True
        if self._waiting is not None:
            self._waiting.cancel()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._waiting is not None:
                anyio.notify_closing(self._fd)
            os.close(self._fd)

    async def _wait(self) -> None:
        with anyio.CancelScope() as self._waiting:
            try:
                await anyio.wait_writable(self._fd)
            except anyio.ClosedResourceError:
                pass  # closed while we waited; the loop above sees it
        self._waiting = None


class Output:
    """The reading end. What the process itself wrote is delivered in full; its descendants are read while they
    write, but cannot keep the reader.

    The loop reads ahead by one chunk and stays registered between chunks, so that each costs one read. At most one
    task takes the lines.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._chunk = b""
        self._reading = False
        self._over = False
        self._taker: asyncio.Future[None] | None = None
        self._drain_until: float | None = None
        self._owed = 0

    async def lines(self, limit: int = LINE_LIMIT) -> AsyncGenerator[bytes]:
        splitter = LineSplitter(limit)
        while chunk := await self._take():
            for count, line in enumerate(splitter.feed(chunk), 1):
                yield line
                if count % _LINES_BETWEEN_CHECKPOINTS == 0:
                    await checkpoint()
        for line in splitter.finish():
            yield line

    def process_gone(self) -> None:
        """All that the process wrote is in the pipe now; from here on the reader has little patience."""
        if self._fd >= 0:
            self._owed = len(self._chunk)
            self._owed += struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, b"\0" * 4))[0]
            self._drain_until = self._loop.time() + _DRAIN
            self._wake()

    def close(self) -> None:
        if self._fd >= 0:
            self._chunk = b""
            self._stop()
            os.close(self._fd)
            self._fd = -1
            self._wake()

    async def _take(self) -> bytes:
        while True:
            if self._drain_until is not None and self._owed <= 0 and self._loop.time() > self._drain_until:
                self._stop()
                return b""
            if self._chunk or self._over:
                chunk, self._chunk = self._chunk, b""
                self._owed -= len(chunk)
                return chunk
            await self._wait()

    async def _wait(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._fd, self._read)
        self._taker = self._loop.create_future()
        if self._drain_until is None:
            await self._taker
        else:
            with anyio.move_on_after(_QUIET) as quiet:
                await self._taker
            if quiet.cancelled_caught:
                self._stop()

    def _read(self) -> None:
        if self._chunk:
            self._pause()  # the taker is behind: the process has to wait
            return
        try:
            self._chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        if not self._chunk:
            self._stop()
        self._wake()

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _stop(self) -> None:
        self._over = True
        self._pause()
