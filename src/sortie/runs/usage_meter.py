"""What one run has used: the sum of what its agent reports, as far as it can be true, and what that costs."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from ..core.model import TokenRates, Usage

# What one run can use at most. Numbers beyond it are mistakes or lies, and would not fit into the store.
_MOST_TOKENS = 10**12
_MOST_DOLLARS = 10.0**6

Amount = TypeVar("Amount", int, float)


class UsageMeter:
    """`rates` price the tokens of which the agent itself does not tell the cost."""

    def __init__(self, rates: TokenRates | None) -> None:
        self._rates = rates
        self._unpriced = Usage()
        self.total = Usage()

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

    def close(self) -> Usage:
        """The run is over: what the agent never told the cost of is priced by the rates."""
        rest, self._unpriced = self._unpriced, Usage()
        self.total = self.total.plus(Usage(cost_usd=self._by_rates(rest)))
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
