"""Runs the child process that sends notifications (`sortie.notify`), and sends it the channels and settings.

It runs only while the workflow has channels. The libraries that it sends with are not imported here.
"""

from __future__ import annotations

import os
import sys

import anyio

from ..process.supervised_child import SupervisedChild
from ..runs.messages import encode
from ..workflow.channels import Channels, NotifierOrders
from .context import Context

ORDERS_EVERY = 1.0
# At our end there may be unsent messages, and a slow receiver.
DRAIN_SECONDS = 6.0


class NotifierProcess:
    """`dashboard` is the address of the dashboard, empty if there is none."""

    def __init__(self, context: Context, dashboard: str) -> None:
        self._context = context
        self._dashboard = dashboard
        self._child = SupervisedChild(
            "notifier",
            [sys.executable, "-P", "-m", "sortie.notify", str(context.ledger.store.path)],
            os.environ,
            drain_seconds=DRAIN_SECONDS,
        )
        self._life = anyio.CancelScope()
        self._since: dict[str, float] = {}
        self._see()

    async def run_forever(self) -> None:
        """A changed workflow may add the first channel, or remove the last one."""
        given_up_on: Channels = {}
        while True:
            if self._see() != given_up_on:
                with anyio.CancelScope() as self._life:
                    await self._child.run(self._orders, ORDERS_EVERY)
                # If it was given up, it is started again only for other channels.
                given_up_on = self._see()
            await anyio.sleep(ORDERS_EVERY)

    def _orders(self) -> bytes | None:
        """Sent again and again, because the process may have been restarted and does not ask."""
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
        """The present channels; notes when each was first seen."""
        clock, channels = self._context.clock, self._context.source.channels
        for name in channels:
            self._since.setdefault(name, clock.on_calendar(clock.now()))
        return channels
