"""What the parts of the engine share: the ledger, the clock, and the workflow with the adapters built from it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio

from ..agents.agent import Agent
from ..core.redact import Redactor
from ..hosts.run_order import Host
from ..trackers.tracker import Tracker
from ..workflow.loader import Workflow
from ..workspace.directory import Root
from .clock import Clock
from .ledger import Ledger


class Occupancy:
    """Who is in a workspace, by its key: one run, or its removal, which gives way to a run as long as it can."""

    def __init__(self) -> None:
        self._locks: dict[str, anyio.Lock] = {}
        self._removals: dict[str, anyio.CancelScope] = {}

    @asynccontextmanager
    async def by_run(self, key: str) -> AsyncIterator[None]:
        if key in self._removals:
            self._removals[key].cancel()
        async with self._lock(key):
            yield

    @contextmanager
    def by_removal(self, key: str) -> Iterator[anyio.CancelScope]:
        """Cancelled when a run wants the workspace; raises `anyio.WouldBlock` where one has it."""
        lock = self._lock(key)
        lock.acquire_nowait()
        try:
            with anyio.CancelScope() as scope:
                self._removals[key] = scope
                yield scope
        finally:
            del self._removals[key]
            lock.release()

    def _lock(self, key: str) -> anyio.Lock:
        return self._locks.setdefault(key, anyio.Lock())


@dataclass
class Services:
    """`workflow`, `tracker` and `agent` are replaced on reload; a run keeps those it began with."""

    ledger: Ledger
    clock: Clock
    host: Host
    workflow: Workflow
    tracker: Tracker
    agent: Agent
    redactor: Redactor
    root: Root
    occupancy: Occupancy = field(default_factory=Occupancy)
    wake: anyio.Event = field(default_factory=anyio.Event)

    def new_run_id(self) -> str:
        """Sorts by time, unique without coordination."""
        return f"{int(self.clock.now() * 1000):011x}-{secrets.token_hex(4)}"
