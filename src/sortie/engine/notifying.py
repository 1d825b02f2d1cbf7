"""The process that tells people when something needs them, as the service sees it.

It is kept alive while there is whom to tell, and told who that is. Nothing of what it sends with is loaded here.
"""

from __future__ import annotations

import os
import sys

import anyio

from ..process.companion import Companion
from ..runs.messages import encode
from ..workflow.channels import Channels, NotifierOrders
from .context import Context

TOLD_EVERY = 1.0
# When we end there may be something left to tell, and somebody slow to take it.
LAST_WORDS = 6.0


class Notifying:
    """`dashboard` is the address of the pages, empty where there are none."""

    def __init__(self, context: Context, dashboard: str) -> None:
        self._context = context
        self._dashboard = dashboard
        self._companion = Companion(
            "notifier",
            [sys.executable, "-P", "-m", "sortie.notify", str(context.ledger.store.path)],
            os.environ,
            last_words=LAST_WORDS,
        )
        self._life = anyio.CancelScope()
        self._since: dict[str, float] = {}
        self._see()

    async def run_forever(self) -> None:
        """A changed workflow may name the first channel, or take away the last one."""
        in_vain: Channels = {}
        while True:
            if self._see() != in_vain:
                with anyio.CancelScope() as self._life:
                    await self._companion.run(self._orders, TOLD_EVERY)
                # Where it was given up, only other channels are a reason to try again.
                in_vain = self._see()
            await anyio.sleep(TOLD_EVERY)

    def _orders(self) -> bytes | None:
        """Said again and again: it may have been started anew, and asks for nothing."""
        source, ledger, channels = self._context.source, self._context.ledger, self._see()
        if not channels:
            self._life.cancel()
            return None
        orders = NotifierOrders(
            channels=dict(channels),
            since=self._since,
            dashboard=self._dashboard,
            secrets=tuple(sorted(source.secrets)),
            keep_days=source.keep_days,
            store_trouble=ledger.trouble,
            store_troubled_since=ledger.troubled_since,
        )
        return encode(orders) + b"\n"

    def _see(self) -> Channels:
        """The channels there are, with a note of when each was first seen."""
        clock, channels = self._context.clock, self._context.source.channels
        for name in channels:
            self._since.setdefault(name, clock.on_calendar(clock.now()))
        return channels
