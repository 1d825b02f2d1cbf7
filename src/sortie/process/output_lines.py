"""The output of a process on a pipe, line by line as it arrives: bounded in length and rate, and never waited
for."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

# So many lines at once, then so many in a second; and so much of each.
MOST_AT_ONCE = 100
LINES_PER_SECOND = 2.0
LONGEST_LINE = 2_000
# As much as a pipe holds.
_CHUNK = 1 << 16


class OutputLines:
    """Reads `descriptor`, which is ours from now on, in the running loop, and passes on each line."""

    def __init__(self, descriptor: int, pass_on: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._pass_on = pass_on
        self._begun = b""
        self._allowed = float(MOST_AT_ONCE)
        self._counted_at = time.monotonic()
        self._left_out = 0
        self._closed = False
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def close(self) -> None:
        """With what is there to read, and the beginning of a line that never ended. Whoever else has the other end
        may go on writing: that is not waited for."""
        if not self._closed:
            self._read()
        self._shut()

    def _read(self) -> None:
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._shut()
            return
        *lines, rest = (self._begun + chunk).split(b"\n")
        for line in lines:
            self._take(line)
        # Of a line that does not end, the beginning is all that is kept.
        self._begun = rest[:LONGEST_LINE]

    def _take(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if not text:
            return
        now = time.monotonic()
        self._allowed = min(MOST_AT_ONCE, self._allowed + (now - self._counted_at) * LINES_PER_SECOND)
        self._counted_at = now
        if self._allowed < 1.0:
            self._left_out += 1
            return
        self._allowed -= 1.0
        if self._left_out:
            self._pass_on(f"({self._left_out} lines were left out)")
            self._left_out = 0
        self._pass_on(text[:LONGEST_LINE])

    def _shut(self) -> None:
        if self._closed:
            return
        self._closed = True
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._take(self._begun)
        if self._left_out:
            self._pass_on(f"({self._left_out} lines were left out)")
