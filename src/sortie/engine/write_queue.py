"""Planned writes that belong to no run: made one at a time, in the order in which they were planned.

Each is recorded before it is made, and marked as done afterwards. Those that an earlier orchestrator left undone
come first. At its end the service waits for them as long as they make progress; the next start makes the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import anyio

from ..core.events import AnyEvent, EffectPlanned
from .context import Context
from .tracker_limit import Postponed


class WriteQueue(ABC):
    """Whoever inherits it says which effects it wants, and how one of them is made. `patience` is for so many
    seconds without a single write the end of the service waits for those that are left."""

    patience = 5.0

    def __init__(self, context: Context) -> None:
        self._context = context
        pending = (effect for effect in context.schedule.effects.values() if self.wants(effect))
        self._waiting = deque(sorted(pending, key=lambda effect: effect.at))
        self._more = anyio.Event()
        self._written = anyio.Event()
        self._is_postponed = False
        context.ledger.listen(self._heard)

    @abstractmethod
    def wants(self, effect: EffectPlanned) -> bool: ...

    @abstractmethod
    async def write(self, effect: EffectPlanned) -> None:
        """Make it and tick it off; `Postponed` leaves it, and all others, to the next start."""

    @abstractmethod
    def left(self, count: int) -> str:
        """The warning when so many writes are left to the next start."""

    def _heard(self, event: AnyEvent) -> None:
        if isinstance(event, EffectPlanned) and self.wants(event):
            self._waiting.append(event)
            self._more.set()

    async def run_forever(self) -> None:
        while True:
            planned = len(self._waiting)
            await self._context.ledger.flushed()
            for _ in range(planned):
                try:
                    await self.write(self._waiting[0])
                except Postponed:
                    self._is_postponed = True
                    self._written.set()
                    return
                self._waiting.popleft()
                self._written.set()
            if self._waiting:
                continue
            self._more = anyio.Event()
            await self._more.wait()

    async def finish(self) -> None:
        while self._waiting and not self._is_postponed:
            self._written = anyio.Event()
            with anyio.move_on_after(self.patience) as wait:
                await self._written.wait()
            if wait.cancelled_caught:
                break
        if self._waiting:
            self._context.note("warning", self.left(len(self._waiting)))
