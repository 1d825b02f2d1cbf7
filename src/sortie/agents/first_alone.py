"""The first one alone, then all at once: programs that make or convert a database of theirs when they start.

Two that do so at the same moment find it half made, and fail.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class FirstStart:
    """`gate` is a block that nobody else is in until one has gone through it without an error: then it is open."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self.open = False

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        await self._lock.acquire()
        if self.open:
            self._lock.release()
            yield
            return
        try:
            yield
            self.open = True
        finally:
            self._lock.release()
