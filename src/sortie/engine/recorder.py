"""Entries of the work log: written one at a time, in the order in which they were planned; no run waits for them.

Whoever keeps the log knows by the name of an entry whether it is there already.
"""

from __future__ import annotations

from ..core.events import EffectPlanned
from .context import Context
from .effects import PAUSES, deliver
from .write_queue import WriteQueue


class Recorder(WriteQueue):
    """While the log cannot be written, entries are given up after one try instead of several: else those of a busy
    service would gather without end, and each would keep the next one waiting."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._is_broken = False

    def wants(self, effect: EffectPlanned) -> bool:
        return effect.verb == "record"

    async def write(self, effect: EffectPlanned) -> None:
        pauses = () if self._is_broken else PAUSES
        delivery = await deliver(effect, self._context.source, self._context.clock.now, again=True, pauses=pauses)
        self._is_broken = not delivery.ok
        self._context.ledger.post(delivery.done)

    def left(self, count: int) -> str:
        entries = "entry is" if count == 1 else "entries are"
        return f"the work log cannot be written: {count} {entries} left to the next start"
