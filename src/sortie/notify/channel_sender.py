"""One channel: collects its notifications for a while, sends them as one message, and retries with backoff.

A row is marked as sent after the receiver accepted the message. After a crash in between it is sent again, with the
same id.
"""

from __future__ import annotations

import logging
import math
import random
import sqlite3
import time
from pathlib import Path

import anyio

from ..errors import StoreError
from ..store import notifications as outbox
from ..store.connect import changing
from ..store.notifications import Notification, Unsent
from ..store.sqlite_errors import explain
from ..workflow.channels import ChannelConfig
from .message import compose
from .notifiable_events import is_open
from .send import NotSent, send

log = logging.getLogger(__name__)

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 3600.0
GIVES_UP_AFTER = 3 * 86400.0
STORE_PAUSE = 5.0


class ChannelSender:
    """`whose` begins the ids of its messages; `db` is for looking, `path` for short transactions. `channel` and
    `dashboard` may change at any time: the next message goes by them."""

    def __init__(
        self, name: str, channel: ChannelConfig, *, path: Path, db: sqlite3.Connection, whose: str
    ) -> None:
        self.channel = channel
        self.dashboard = ""
        self._name = name
        self._path = path
        self._db = db
        self._whose = f"{whose}:{name}"
        self._news = anyio.Event()
        self._sending = anyio.Lock()
        self._taken: list[int] = []
        self._said = ""

    def wake(self) -> None:
        """Something may be there to be sent."""
        self._news.set()

    async def run(self) -> None:
        """Send whatever is due, for ever."""
        while True:
            self._news = anyio.Event()
            pause = STORE_PAUSE
            try:
                pause = await self._step()
            except StoreError as error:
                log.warning("%s", error)
            with anyio.move_on_after(pause):
                await self._news.wait()

    async def finish(self) -> None:
        """A last try of what no failure holds back, without waiting for more to come."""
        try:
            async with self._sending:
                waiting = self._open()
                if waiting and _not_before(waiting) <= time.time():
                    await self._deliver(waiting)
        except StoreError as error:
            log.warning("%s", error)

    async def tell(self, notification: Notification) -> None:
        """Send this past the outbox, once: for what happens when there is no store to keep it."""
        try:
            await send(self.channel, compose(self._whose, [notification], self.dashboard))
        except NotSent as error:
            log.warning("%s: %s", self._name, error)

    async def _step(self) -> float:
        """Send what is due; the answer is in how many seconds to look again, unless something new comes."""
        async with self._sending:
            waiting = self._open()
            if not waiting:
                return math.inf
            gathers = self.channel.digest_seconds
            # The wall clock may be set back: never wait longer than intended because of that.
            left = max(
                min(waiting[0].at + gathers - time.time(), gathers),
                min(_not_before(waiting) - time.time(), LONGEST_PAUSE),
            )
            if left <= 0:
                await self._deliver(waiting)
        return max(left, 0.0)

    def _open(self) -> list[Unsent]:
        """What waits and still needs somebody; the rest is dropped. What was taken is noted first: a store that
        refuses that must not have it sent again."""
        self._note_taken()
        try:
            waiting = outbox.waiting(self._db, self._name)
            late = [one for one in waiting if time.time() - one.at > GIVES_UP_AFTER]
            settled = [one for one in waiting if not is_open(self._db, one)]
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        if late or settled:
            with changing(self._path) as db:
                outbox.drop(db, (one.id for one in settled), "settled")
                outbox.drop(db, (one.id for one in late), "given up")
        if late:
            log.warning("%s: %d given up after three days; %s", self._name, len(late), self._said or "not sent")
        dropped = {one.id for one in (*late, *settled)}
        return [one for one in waiting if one.id not in dropped]

    async def _deliver(self, waiting: list[Unsent]) -> None:
        ids = [one.id for one in waiting]
        try:
            await send(self.channel, compose(self._whose, waiting, self.dashboard))
        except NotSent as error:
            pause = error.after if error.after is not None else backoff(max(one.tries for one in waiting))
            with changing(self._path) as db:
                outbox.mark_failed(db, ids, str(error), time.time() + min(pause, LONGEST_PAUSE))
            if str(error) != self._said:  # told once, not with each try
                log.warning("%s: %s; it is tried again", self._name, error)
            self._said = str(error)
        else:
            self._taken, self._said = ids, ""
            self._note_taken()

    def _note_taken(self) -> None:
        if self._taken:
            with changing(self._path) as db:
                outbox.mark_sent(db, self._taken, time.time())
            self._taken = []


def backoff(tries: int) -> float:
    """Seconds before the next try, after so many before the one that failed: doubling, up to half of it less."""
    nominal = min(FIRST_PAUSE * 2.0 ** min(tries, 30), LONGEST_PAUSE)
    return nominal * random.uniform(0.5, 1.0)  # noqa: S311 - so that not all come back at once


def _not_before(waiting: list[Unsent]) -> float:
    """A receiver that failed is left alone, by what is new too."""
    return max(one.next_try_at for one in waiting)
