"""Until when the tracker's rate limit lasts, as reported by any call that met it.

Until then there are no polls and nothing new starts; runs continue with the last known version of their issue.
The limit is logged once, not for every call that meets it; a long one again from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from ..core.narrate import clock as told_time
from ..errors import TrackerError
from .clock import Clock

# Servers count by the hour. The time is theirs: one in milliseconds must not stop us for ages, one in the past must
# not make us spin. Nobody waits for longer, also where one limit follows the other.
LONGEST_LIMIT = 65 * 60.0
SHORTEST_LIMIT = 1.0
# A limit that is met again so soon is still the same story.
SAID_FOR = 600.0
# A timer stands still while the computer sleeps, and the clock does not.
STEP = 1.0


class TrackerLimit:
    """`leaving` is set when we are asked to stop, `warn` is for people."""

    def __init__(self, clock: Clock, leaving: asyncio.Event, warn: Callable[[str, str], None]) -> None:
        self._clock = clock
        self._leaving = leaving
        self._warn = warn
        self._said_until = 0.0
        self.until = 0.0

    def now(self) -> float:
        return self._clock.now()

    def left(self) -> float:
        """Seconds until it may be asked again."""
        return max(self.until - self.now(), 0.0)

    def is_met(self, error: Exception) -> bool:
        """Whether this failure of a call is a limit with a time: then it is heeded, and said here, unless it is one
        that time does not end."""
        if not isinstance(error, TrackerError) or not isinstance(error.until, int | float):
            return False
        now = self.now()
        until = error.until + now - self._clock.on_calendar(now)
        # The bounds stand first: they are what `min` and `max` answer for a time that is not a number.
        self.until = max(self.until, min(now + LONGEST_LIMIT, max(now + SHORTEST_LIMIT, until)))
        if error.passing and now >= self._said_until:
            until_then = f"nothing new starts before {told_time(self.until)}"
            self._warn(f"the tracker's rate limit is reached; {until_then}", str(error))
            self._said_until = self.until + SAID_FOR
        return True

    def forget(self) -> None:
        """The source was exchanged; if the tracker is the same, the next call meets the limit again."""
        self.until = 0.0

    async def over(self) -> bool:
        """Wait until it may be asked again; False where we are asked to stop before that."""
        while left := self.left():
            if self._leaving.is_set():
                return False
            with anyio.move_on_after(min(left, STEP)):
                await self._leaving.wait()
        return True


class Postponed(Exception):
    """The rate limit of the tracker is reached and the service stops: what was to be done is left to the next
    start."""


class Patience:
    """How one thing that has to be done meets limits: it `waits` for their end, not for ever, or is postponed."""

    def __init__(self, limit: TrackerLimit, *, waits: bool) -> None:
        self._limit = limit
        self._waits = waits
        self._ends_at = limit.now() + LONGEST_LIMIT

    async def outlasts(self, failure: Exception) -> bool:
        """Whether it was a limit that is over by now, so that the call may be made again; raises `Postponed`."""
        if not self._limit.is_met(failure) or self._limit.now() >= self._ends_at:
            return False
        if not (self._waits and await self._limit.over()):
            raise Postponed
        return True
