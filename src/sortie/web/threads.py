"""Separate threads, limited in number, for work that must not wait behind reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")
P = ParamSpec("P")


class Threads:
    """Made anywhere, and used in one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, call: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        self._limiter = self._limiter or anyio.CapacityLimiter(self._most)
        return await anyio.to_thread.run_sync(partial(call, *args, **keywords), limiter=self._limiter)
