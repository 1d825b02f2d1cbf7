"""The two yardsticks: starting a bare process, starting a bare Python. Everything else is told in these."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

SPAWNS = 60
STARTS = 15


def median_seconds(work: Callable[[], object], times: int) -> float:
    work()  # the first one pays for cold caches
    measured = []
    for _ in range(times):
        before = time.perf_counter()
        work()
        measured.append(time.perf_counter() - before)
    return statistics.median(measured)


def bare_spawn() -> float:
    """Seconds for `sh -c :` from start to exit, in a session of its own as agents are."""
    return median_seconds(lambda: subprocess.run(["sh", "-c", ":"], start_new_session=True, check=True), SPAWNS)


def bare_python() -> float:
    """Seconds for `python -c pass`."""
    return median_seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), STARTS)
