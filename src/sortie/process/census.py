"""One look at the process table for everybody who needs one at the same time.

A scan costs microseconds for each process on the machine. When hundreds of agents end together, those who ask
in the same round of the event loop share one scan, so that the cost grows with rounds and not with its square.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from .process_table import Process, snapshot

_next: WeakKeyDictionary[asyncio.AbstractEventLoop, _Scan] = WeakKeyDictionary()


class _Scan:
    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.table: dict[int, Process] = {}


async def census() -> dict[int, Process]:
    """The process table, taken after this call. It is shared: look, do not change."""
    loop = asyncio.get_running_loop()
    scan = _next.get(loop)
    if scan is None:
        scan = _next[loop] = _Scan()
        loop.call_soon(_take, loop)
    await scan.done.wait()
    return scan.table


def _take(loop: asyncio.AbstractEventLoop) -> None:
    # In the event loop and not in a thread: here no child of ours can be between its start and its registration.
    scan = _next.pop(loop)
    scan.table = snapshot()
    scan.done.set()
