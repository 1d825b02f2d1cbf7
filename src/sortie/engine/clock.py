"""Two times: the one by which runs are scheduled, which never jumps, and the calendar's, which people set."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..core.policy import day_of

# CLOCK_BOOTTIME goes on while a laptop sleeps; where it is missing the monotonic clock has to do.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

# The two clocks are not read at the same instant.
NOT_SET_WITHIN = 1.0


def _boot() -> float:
    return time.clock_gettime(_BOOTTIME)


class Clock:
    """The wall clock as it was when we started, carried on by a clock that nobody can set.

    Somebody who sets the system time, in either direction, changes no timeout and no back-off of ours.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _boot) -> None:
        self._steady = steady
        self._wall = wall
        self._offset = wall() - steady()

    def now(self) -> float:
        return self._steady() + self._offset

    def on_calendar(self, moment: float) -> float:
        """What a moment of `now` is called since the clock was set: for the day that pays, and for logs."""
        shift = self._wall() - self.now()
        return moment + shift if abs(shift) >= NOT_SET_WITHIN else moment

    def day(self, moment: float) -> str:
        """The budget day of a moment of `now`."""
        return day_of(self.on_calendar(moment))
