"""The one way to change state: events enter the schedule, the queue of ready issues and the log, in one order.

An event is folded into the schedule when it is posted and written right after; whoever needs it to survive a
crash before acting waits for `record`. While the disk refuses, writing is tried again and everyone waits: agents go
on working, nothing new starts, nothing is forgotten. Only where the store itself is gone nobody waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import anyio
from msgspec.structs import replace

from ..core.events import AnyEvent
from ..core.ready_queue import ReadyQueue
from ..core.schedule import Schedule
from ..errors import StoreError
from ..store import Store
from ..store.tables import Change

RETRY_EVERY = 1.0

Listener = Callable[[AnyEvent], None]


class Ledger:
    """`on_trouble` hears that the store cannot be written, and an empty string when it can again.

    `on_calendar` gives the time that events bear from the one that is scheduled by. `trouble` is why the store
    cannot be written, `troubled_since` the time of the calendar when that began.
    """

    def __init__(
        self,
        store: Store,
        listeners: Sequence[Listener] = (),
        on_trouble: Callable[[str], None] = lambda _: None,
        on_calendar: Callable[[float], float] = lambda moment: moment,
    ) -> None:
        self.store = store
        self.queue = ReadyQueue.of(store.schedule)
        self._listeners = list(listeners)
        self._pending: list[Change] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._writing = False
        self._more = asyncio.Event()
        self._on_trouble = on_trouble
        self._on_calendar = on_calendar
        self.trouble = ""
        self.gave_up = False
        self.troubled_since = 0.0

    @property
    def schedule(self) -> Schedule:
        return self.store.schedule

    def listen(self, listener: Listener) -> None:
        """Tell it every event from now on, in the order of the log. It must not block and not raise."""
        self._listeners.append(listener)

    def post(self, *events: AnyEvent) -> None:
        for event in events:
            change = self.store.apply(self._dated(event))
            self.queue.touch(self.schedule, change.event, [touched for touched, _ in change.rows])
            self._pending.append(change)
            self._more.set()
            for listener in self._listeners:
                listener(change.event)

    def _dated(self, event: AnyEvent) -> AnyEvent:
        at = self._on_calendar(event.at)
        return event if at == event.at else replace(event, at=at)

    async def record(self, *events: AnyEvent) -> None:
        """Post the events and wait until they are on disk."""
        self.post(*events)
        await self.flushed()

    async def flushed(self) -> None:
        """Wait until everything posted so far is on disk."""
        if not self._pending and not self._writing:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        self._more.set()
        await future

    async def write_forever(self) -> None:
        """The writer task: one transaction for whatever has gathered since the last one."""
        while True:
            await self._more.wait()
            self._more.clear()
            changes, self._pending = self._pending, []
            waiters, self._waiters = self._waiters, []
            if changes:
                self._writing = True
                await self._write(changes)
                self._writing = False
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def _write(self, changes: list[Change]) -> None:
        failed = False
        while True:
            try:
                await self.store.write(changes)
            except StoreError as error:
                if not failed:
                    failed, self.troubled_since = True, time.time()
                self.trouble = str(error)
                self._on_trouble(self.trouble)
                if self.store.is_lost() or self.gave_up:
                    return  # there is nothing left to write to, and the agents have to be ended all the same
                await anyio.sleep(RETRY_EVERY)
            else:
                break
        if failed:
            self.trouble = ""
            self._on_trouble("")

    def give_up(self) -> None:
        """Wait for the disk no longer: what is not written by now is what a crash would have lost."""
        self.gave_up = True
