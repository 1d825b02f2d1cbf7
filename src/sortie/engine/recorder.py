"""Entries of the work log: written one at a time, in the order in which they were planned; no run waits for them.

An entry is on record before it is written, and ticked off after. What an earlier orchestrator had planned and not
ticked off comes first; whoever keeps the log knows by the name of an entry whether it is there already.
"""

from __future__ import annotations

from collections import deque

import anyio

from ..core.events import AnyEvent, EffectPlanned
from .context import Context
from .effects import PAUSES, deliver

# For so long without a single entry written, the end of the service waits for those that are left.
PATIENCE = 5.0


class Recorder:
    """While the log cannot be written, entries are given up after one try instead of several: else those of a busy
    service would gather without end, and each would keep the next one waiting."""

    def __init__(self, context: Context) -> None:
        self._context = context
        pending = (effect for effect in context.schedule.effects.values() if effect.verb == "record")
        self._waiting = deque(sorted(pending, key=lambda effect: effect.at))
        self._more = anyio.Event()
        self._written = anyio.Event()
        self._is_broken = False
        context.ledger.listen(self._heard)

    def _heard(self, event: AnyEvent) -> None:
        if isinstance(event, EffectPlanned) and event.verb == "record":
            self._waiting.append(event)
            self._more.set()

    async def run_forever(self) -> None:
        while True:
            planned = len(self._waiting)
            await self._context.ledger.flushed()
            for _ in range(planned):
                await self._write(self._waiting[0])
                self._waiting.popleft()
                self._written.set()
            if self._waiting:
                continue
            self._more = anyio.Event()
            await self._more.wait()

    async def _write(self, effect: EffectPlanned) -> None:
        pauses = () if self._is_broken else PAUSES
        delivery = await deliver(effect, self._context.source, self._context.clock.now, again=True, pauses=pauses)
        self._is_broken = not delivery.ok
        self._context.ledger.post(delivery.done)

    async def finish(self) -> None:
        """Write what is left, as long as that gets anywhere: the next start writes the rest."""
        while self._waiting:
            self._written = anyio.Event()
            with anyio.move_on_after(PATIENCE) as wait:
                await self._written.wait()
            if wait.cancelled_caught:
                left = f"{len(self._waiting)} entr{'y is' if len(self._waiting) == 1 else 'ies are'} left"
                self._context.note("warning", f"the work log cannot be written: {left} to the next start")
                return
