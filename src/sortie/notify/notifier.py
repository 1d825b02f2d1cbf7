"""The main loop of the process: gets the channels from the service, follows the event log, and runs the senders.

Its orders come line by line on its standard input; it ends when that ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup

from ..core.redact import Redactor
from ..errors import StoreError
from ..store import notifications as outbox
from ..store.connect import changing, connect_readonly
from ..store.loss import OpenFiles
from ..store.notifications import Notification
from ..store.queries import store_id
from ..store.sqlite_errors import explain
from ..workflow.channels import ChannelConfig, NotifierOrders
from .channel_sender import GIVES_UP_AFTER, ChannelSender
from .message import one_line
from .notifiable_events import LONGEST_TEXT, find_notifications, is_once_only

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
PRUNE_EVERY = 3600.0
# So far the log may be read again after a crash: who has nothing to tell writes next to nothing.
MOST_UNNOTED = 2000
DRAIN_SECONDS = 5.0
# A store that refuses for a moment is nothing for people, and of one that does so again and again they know.
TROUBLE_TOLD_AFTER = 10.0
TROUBLE_TOLD_AGAIN = 3600.0
LONGEST_ORDER = 16 * 1024 * 1024


class Notifier:
    """`db` is for looking; what is written goes through short transactions on `path`."""

    def __init__(self, path: Path, db: sqlite3.Connection, tasks: TaskGroup) -> None:
        self._path = path
        self._db = db
        self._tasks = tasks
        self._files = OpenFiles(path)
        self._whose = store_id(db)[:8]
        self._orders: NotifierOrders | None = None
        self._senders: dict[str, ChannelSender] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._cursors: dict[str, int] = {}
        self._noted = 0
        self._version = -1
        self._prune_at = 0.0
        self._telling_of_loss = anyio.Lock()
        self._told_of_loss = False
        self._told_of_trouble, self._told_of_trouble_at = 0.0, -math.inf

    def obey(self, orders: NotifierOrders) -> None:
        """From now on these channels are looked after; one that changed goes on with what it has not been told."""
        orders = msgspec.structs.replace(orders, store_trouble="", store_troubled_since=0.0)
        if orders == self._orders:
            return
        with changing(self._path) as db:
            for name in orders.channels:
                outbox.begin(db, name, orders.since.get(name, time.time()))
            known = outbox.cursors(db)
        self._cursors = {name: known[name] for name in orders.channels}
        self._noted = min(self._cursors.values(), default=0)
        for name in self._senders.keys() - orders.channels.keys():
            self._scopes.pop(name).cancel()
            del self._senders[name]
        for name, channel in orders.channels.items():
            if name not in self._senders:
                sender = self._sender(name, channel)
                self._senders[name], self._scopes[name] = sender, anyio.CancelScope()
                self._tasks.start_soon(_run_in, self._scopes[name], sender)
            self._senders[name].channel, self._senders[name].dashboard = channel, orders.dashboard
            self._senders[name].wake()
        self._orders = orders
        self._version = -1

    async def follow(self) -> None:
        """Look for what happened, until the store is gone."""
        while not self._files.loss():
            try:
                self._look()
                self._prune()
            except StoreError as error:
                log.warning("%s", error)
            await anyio.sleep(LOOK_EVERY)
        await self._tell_of_loss()

    async def _tell_of_loss(self) -> None:
        """Past the store, once. Who looks and who finishes may both have noticed."""
        async with self._telling_of_loss:
            if self._told_of_loss:
                return
            self._told_of_loss = True
            for scope in self._scopes.values():
                scope.cancel()  # what stands at the path now is not for them to write to
            text = f"{self._files.loss()}: the service ends, and nothing starts until that is fixed."
            await _tell_past_the_store(text, 0, self._senders.values())

    def tell_of_trouble(self, orders: NotifierOrders) -> None:
        """Past the store too, which takes nothing now, not even that there is a channel. Who is started anew says
        so again, with the same id."""
        since, now = orders.store_troubled_since, time.monotonic()
        is_news = since != self._told_of_trouble and now - self._told_of_trouble_at >= TROUBLE_TOLD_AGAIN
        if orders.store_trouble and is_news and time.time() - since >= TROUBLE_TOLD_AFTER:
            self._told_of_trouble, self._told_of_trouble_at = since, now
            text = f"The store cannot be written, so nothing new starts: {orders.store_trouble}"
            hidden = one_line(text, LONGEST_TEXT, Redactor(orders.secrets).text)
            senders = [self._sender(name, channel) for name, channel in orders.channels.items()]
            self._tasks.start_soon(_tell_past_the_store, hidden, int(since), senders)

    def _sender(self, name: str, channel: ChannelConfig) -> ChannelSender:
        return ChannelSender(name, channel, path=self._path, db=self._db, whose=self._whose)

    async def finish(self) -> None:
        """The service is about to end: tell what there is to tell now."""
        if self._files.loss():
            await self._tell_of_loss()
            return
        try:
            self._look()
        except StoreError as error:
            log.warning("%s", error)
        async with anyio.create_task_group() as finishing:
            for sender in self._senders.values():
                finishing.start_soon(sender.finish)

    def _look(self) -> None:
        """Put what is new into the outbox."""
        try:
            (version,) = self._db.execute("PRAGMA data_version").fetchone()
            if version == self._version:
                return
            while self._senders and not self._look_further():
                pass
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        self._version = version

    def _look_further(self) -> bool:
        """The next piece of the log; whether that was the last."""
        assert self._orders is not None
        after = min(self._cursors.values())
        found = find_notifications(self._db, after, Redactor(self._orders.secrets).text)
        news = [
            (name, notification)
            for notification in found.notifications
            if time.time() - notification.at < GIVES_UP_AFTER
            for name, sender in self._senders.items()
            if notification.seq > self._cursors[name] and notification.kind in sender.channel.on
        ]
        cursors = {name: max(seq, found.looked_at) for name, seq in self._cursors.items()}
        if news or found.looked_at - self._noted > MOST_UNNOTED:
            with changing(self._path) as db:
                outbox.put(db, _each_once(db, news), cursors)
            self._noted = found.looked_at
            for name, _ in news:
                self._senders[name].wake()
        self._cursors = cursors
        return found.is_all

    def _prune(self) -> None:
        if self._orders is not None and time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + PRUNE_EVERY
            kept = max(self._orders.keep_days * 86400.0, GIVES_UP_AFTER)
            with changing(self._path) as db:
                outbox.prune(db, time.time() - kept)


async def _tell_past_the_store(text: str, number: int, senders: Iterable[ChannelSender]) -> None:
    notification = Notification(
        seq=number, kind="service", issue_id="", identifier="service", title="", text=text, at=time.time()
    )
    async with anyio.create_task_group() as telling:
        for sender in senders:
            if notification.kind in sender.channel.on:
                telling.start_soon(sender.tell, notification)


async def run(path: Path) -> None:
    """Until the service ends; raises `StoreError` where its store cannot be read."""
    with closing(connect_readonly(path)) as db:
        async with anyio.create_task_group() as tasks:
            notifier = Notifier(path, db, tasks)
            tasks.start_soon(notifier.follow)
            async for orders in _orders():
                try:
                    notifier.obey(orders)
                except StoreError as error:
                    log.warning("%s", error)  # they are said again
                notifier.tell_of_trouble(orders)
            with anyio.move_on_after(DRAIN_SECONDS):
                await notifier.finish()
            tasks.cancel_scope.cancel()


async def _orders() -> AsyncIterator[NotifierOrders]:
    """What the service says, until it says no more."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST_ORDER)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while line := await reader.readline():
            yield msgspec.json.decode(line, type=NotifierOrders)
    finally:
        transport.close()


async def _run_in(scope: anyio.CancelScope, sender: ChannelSender) -> None:
    with scope:
        await sender.run()


def _each_once(db: sqlite3.Connection, news: list[tuple[str, Notification]]) -> Iterator[tuple[str, Notification]]:
    """Without what many events tell of, where the channel knows of it already."""
    known: set[tuple[str, str]] = set()
    for name, notification in news:
        if is_once_only(notification):
            key = (name, notification.identifier)
            if key in known:
                continue
            known.add(key)
            if outbox.is_known(db, name, notification.kind, notification.identifier):
                continue
        yield name, notification
