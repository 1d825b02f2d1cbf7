"""Metrics of the service that no event records: polls, calls to the tracker, the lag of the event loop.

They are kept in memory and added to the store every few seconds, if there is something new, and at the end. After a
kill the last few seconds are missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import anyio

from ..errors import StoreError
from ..sources.source import Source
from ..store import Store
from ..store.counters import Counts

# The loop lag is measured so often, and is the worst of the last LAGS measurements.
LAG_EVERY = 1.0
LAGS = 10


class ServiceMetrics:
    """`looked_at` is the end of the last poll, on the clock of the scheduler, 0 before the first; `look_error` is
    why it failed, `look_seconds` how long it took, `failing_since` when the polls that failed in a row began, 0 if
    none did or because of a rate limit of the tracker; `needs_person`: waiting will not help."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.looked_at = self.look_seconds = 0.0
        self.look_error = ""
        self.failing_since = 0.0
        self.needs_person = False
        self._lags: deque[float] = deque(maxlen=LAGS)

    @property
    def loop_lag(self) -> float:
        """The longest recent delay of a timer, in seconds."""
        return max(self._lags, default=0.0)

    def looked(
        self, now: float, seconds: float, error: str, *, failing_since: float = 0.0, needs_person: bool = False
    ) -> None:
        self.looked_at, self.look_seconds, self.look_error = now, seconds, error
        self.failing_since, self.needs_person = failing_since, needs_person
        self.counts.add("poll_cycles", result="error" if error else "success")
        self.counts.observe("poll_duration_seconds", seconds)

    async def measure_lag(self, every: float = LAG_EVERY) -> None:
        while True:
            due = anyio.current_time() + every
            await anyio.sleep(every)
            self._lags.append(max(anyio.current_time() - due, 0.0))

    def collect(self, sources: Iterable[Source]) -> None:
        """Add the calls that they made to their trackers since the last collection."""
        for source in sources:
            for (operation, result), calls in source.requests_made().items():
                self.counts.add("tracker_requests", calls, operation=operation, result=result)

    async def keep(self, store: Store) -> None:
        """Add what is new to the store; if that fails, it is added the next time."""
        counts, self.counts = self.counts, Counts()
        if counts:
            try:
                await store.add_counts(counts)
            except StoreError:
                self.counts.join(counts)
