"""What one run has used, and of which model: what its agent reports, as far as it can be true, and its cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from ..core.model import TokenRates, Usage
from .channel import Channel
from .messages import UsageTotal

# An agent may report with every word; whoever reads wants to know soon, not at once.
TELL_EVERY = 0.5

# What one run can use at most. Numbers beyond it are mistakes or lies, and would not fit into the store.
_MOST_TOKENS = 10**12
_MOST_DOLLARS = 10.0**6

Amount = TypeVar("Amount", int, float)


class UsageMeter:
    """`rates` price the tokens of which the agent does not tell the cost; `on_told` is called now and then.
    `model` is the one that was asked for, until the agent names one."""

    def __init__(
        self, rates: TokenRates | None, channel: Channel, on_told: Callable[[], None], model: str = ""
    ) -> None:
        self._rates = rates
        self._channel = channel
        self._on_told = on_told
        self._timer: asyncio.TimerHandle | None = None
        self._unpriced = Usage()
        self.total = Usage()
        self.model = model
        self._told = (Usage(), "")

    def add(self, told: Usage, *, cost_follows: bool = False) -> None:
        """`cost_follows`: a later report tells what these tokens cost."""
        usage = self._believable(told)
        if cost_follows:
            self._unpriced = self._unpriced.plus(usage)
        elif usage.cost_usd:
            self._unpriced = Usage()
        else:
            usage = replace(usage, cost_usd=self._by_rates(usage))
        self.total = self.total.plus(usage)
        self._tell_soon()

    def name_model(self, model: str) -> None:
        if model != self.model:
            self.model = model
            self._tell_soon()

    def _tell_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TELL_EVERY, self._tell_by_itself)

    def tell(self) -> None:
        """Now, because somebody is about to decide by it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._told != (self.total, self.model):
            self._told = (self.total, self.model)
            self._channel.tell(UsageTotal(total=self.total, model=self.model))

    def _tell_by_itself(self) -> None:
        self.tell()
        self._on_told()

    def close(self) -> Usage:
        """The run is over: what the agent never told the cost of is priced by the rates."""
        rest, self._unpriced = self._unpriced, Usage()
        self.total = self.total.plus(Usage(cost_usd=self._by_rates(rest)))
        self.tell()
        return self.total

    def _believable(self, told: Usage) -> Usage:
        so_far = self.total
        return Usage(
            _within(told.input, _MOST_TOKENS - so_far.input),
            _within(told.output, _MOST_TOKENS - so_far.output),
            _within(told.cache_read, _MOST_TOKENS - so_far.cache_read),
            _within(told.cost_usd, _MOST_DOLLARS - so_far.cost_usd),
        )

    def _by_rates(self, usage: Usage) -> float:
        return self._rates.cost(usage) if self._rates else 0.0


def _within(amount: Amount, room: Amount) -> Amount:
    """At least nothing, also for what is not a number, and at most what there is room for."""
    return min(amount, room) if amount > 0 and room > 0 else type(room)(0)
