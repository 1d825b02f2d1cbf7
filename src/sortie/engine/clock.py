"""The time by which runs are scheduled: seconds since the epoch that never jump while we run."""

from __future__ import annotations

import time
from collections.abc import Callable

# CLOCK_BOOTTIME goes on while a laptop sleeps; where it is missing the monotonic clock has to do.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _boot() -> float:
    return time.clock_gettime(_BOOTTIME)


class Clock:
    """The wall clock as it was when we started, carried on by a clock that nobody can set.

    Somebody who sets the system time, in either direction, changes no timeout and no back-off of ours.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _boot) -> None:
        self._steady = steady
        self._offset = wall() - steady()

    def now(self) -> float:
        return self._steady() + self._offset
