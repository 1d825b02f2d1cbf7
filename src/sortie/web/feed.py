"""What all streams of a server share: one reader of the event log, and the reports of the service.

While there are streams, one connection checks several times a second whether SQLite has a new commit, which only
reads shared memory. A store that is deleted or replaced ends the feed; the next stream starts a new one.
"""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import anyio.to_thread

from ..errors import SortieError
from .heartbeat import Heartbeat, frame
from .json_api import STORE_UNAVAILABLE, Problem
from .log_window import BATCH, Entry, LogWindow
from .site import Site

T = TypeVar("T")

LOOK_EVERY = 0.15
MOST_STREAMS = 1000
# Files and connections that a server needs for everything but streams.
_SPARE_FILES = 200


class FeedEnded(Exception):
    """Nothing more comes; `last_words` are for the reader."""

    def __init__(self, last_words: bytes) -> None:
        self.last_words = last_words


class Feed:
    """`joined` is what streams use; everything else is one event loop's own business."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._readers = 0
        self._watch: _Watch | None = None
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def joined(self, after: int | None, issue_id: str | None) -> AsyncIterator[Position]:
        """A place behind event number `after`, or behind the last one; with an issue, of its events alone."""
        if self._readers >= min(MOST_STREAMS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_FILES):
            raise Problem(503, "too_many_streams", "Too many streams are open.", {"retry-after": "10"})
        self._readers += 1
        try:
            yield await self._placed(after, issue_id)
        finally:
            self._readers -= 1
            if not self._readers and self._watch:
                self._watch.stop()
                self._watch = None

    async def _placed(self, after: int | None, issue_id: str | None) -> Position:
        try:
            return await Position.found(await self._watching(), after, issue_id)
        except (SortieError, sqlite3.Error, OSError) as error:
            raise unreadable(error) from error

    async def _watching(self) -> _Watch:
        async with self._opening:
            if self._watch is None or self._watch.last_words:
                self._watch = await _Watch.begun(self.site)
            return self._watch


def unreadable(error: Exception) -> Problem:
    return Problem(503, STORE_UNAVAILABLE, f"The store cannot be read: {error}", {"retry-after": "2"})


class _Watch:
    """One open store, from the first reader to the last or to its loss."""

    def __init__(self, site: Site, log: LogWindow) -> None:
        self.log = log
        self.heartbeat = Heartbeat(site)
        self.last_words = b""
        self.news = asyncio.Event()
        self._looking, self._reading = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def begun(cls, site: Site) -> _Watch:
        watch = cls(site, await anyio.to_thread.run_sync(LogWindow, site))
        watch._task = asyncio.create_task(watch._run(), name="feed")
        watch._task.add_done_callback(lambda _: watch.log.close())
        return watch

    def stop(self) -> None:
        if self._task:
            self._task.cancel()

    async def read(self, after: int, issue_id: str | None) -> tuple[list[Entry], int]:
        """From the store, what memory does not reach back to."""
        return await anyio.to_thread.run_sync(self.log.read, after, issue_id, limiter=self._reading)

    async def newest(self) -> int:
        """The last number in the store, which the next look may be the first to see."""
        return await anyio.to_thread.run_sync(self.log.newest, limiter=self._reading)

    async def _run(self) -> None:
        try:
            while True:
                if self.heartbeat.is_due and await self._in_thread(self.heartbeat.beat):
                    self._tell()
                await self._follow()
                await asyncio.sleep(LOOK_EVERY)
        except (SortieError, sqlite3.Error, OSError) as error:
            self.last_words = frame("failed", {"message": str(error)})
        except Exception:
            traceback.print_exc(file=sys.stderr)
            self.last_words = frame("failed", {"message": "The server failed; its log says why."})
        self._tell()

    async def _follow(self) -> None:
        while found := await self._in_thread(self.log.look):
            self.log.extend(found)
            self._tell()
            if len(found) < BATCH:
                return

    def _tell(self) -> None:
        told, self.news = self.news, asyncio.Event()
        told.set()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(call, limiter=self._looking)


class Position:
    """Where one reader is in the log."""

    def __init__(self, watch: _Watch, after: int, issue_id: str | None, reset: bytes = b"") -> None:
        self._watch = watch
        self._issue_id = issue_id
        self._beats = watch.heartbeat.beats
        # Who breaks off before the first event needs a number to come back with. That of another log comes in one
        # message with the word that it is another: no break in between hides it.
        self._first = (reset or b"id: %d\n\n" % after) + watch.heartbeat.standing
        self._seq = after

    @classmethod
    async def found(cls, watch: _Watch, after: int | None, issue_id: str | None) -> Position:
        """Behind this number, or behind the last one."""
        if after is None:
            return cls(watch, watch.log.last, issue_id)
        # Who read the number in the store may be ahead of what all of us have seen of it.
        if after <= watch.log.last or after <= (last := await watch.newest()):
            return cls(watch, after, issue_id)
        # Numbers of another store: there is nothing to go on from.
        return cls(watch, last, issue_id, frame("reset", {"seq": last}, last))

    async def next(self) -> bytes:
        """What the reader has not been told yet, as soon as there is something."""
        if first := self._first:
            self._first = b""
            return first
        watch = self._watch
        while True:
            news = watch.news  # of before we look: while the store is read, more may be told
            frames = await self._changes()
            if self._beats != watch.heartbeat.beats:
                frames.append(watch.heartbeat.last)
                self._beats = watch.heartbeat.beats
            if said := b"".join(frames):
                return said
            if watch.last_words:
                raise FeedEnded(watch.last_words)
            await news.wait()

    async def _changes(self) -> list[bytes]:
        log = self._watch.log
        if self._seq >= log.last:
            return []
        entries, read_to = log.after(self._seq), log.last
        if entries is None:
            try:
                entries, read_to = await self._watch.read(self._seq, self._issue_id)
            except (SortieError, sqlite3.Error) as error:
                raise FeedEnded(frame("failed", {"message": str(error)})) from error
        self._seq = read_to
        return [one.frame for one in entries if self._issue_id is None or one.issue_id == self._issue_id]
