"""What only store and kernel can tell about a request: what its token allows, and whether an agent sent it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.types import Scope as Connection

from ..errors import SortieError
from ..store.web_tokens import Scope, tokens
from .peer_process import peer_of
from .refusals import Refusal
from .site import Site
from .tokens import granted, of_workflow

T = TypeVar("T")

# Both take a thread; many requests at once take turns.
_AT_ONCE = 8


class Doorman:
    def __init__(self, site: Site) -> None:
        self.site = site
        self._threads: anyio.CapacityLimiter | None = None

    async def scope_of(self, token: str) -> Scope | None:
        """What a token allows now; read anew each time, because a revoked one ends at once."""
        return await self._in_thread(lambda: granted(token, self._known()))

    async def refuse_agents(self, connection: Connection) -> None:
        """Raise where an agent's process is behind it: no agent approves of itself, whatever token it has found."""
        client, server = tuple(connection["client"]), tuple(connection["server"])
        report = self.site.live.report
        service = report.pid if report else 0
        peer = await self._in_thread(lambda: peer_of(client, server, service))
        if peer == "agent":
            said = "Only a person may do this, and the request comes from inside a run of Sortie."
            raise Refusal(403, "agent", said)
        if peer == "nobody":
            said = "Whoever sent this did not wait for the answer, so nobody can tell whether it was a person."
            raise Refusal(403, "gone", said)

    def _known(self) -> list[tuple[str, Scope]]:
        known = of_workflow(self.site.server)
        try:
            with self.site.looking() as db:
                return known + [(row.digest, row.scope) for row in tokens(db)]
        except (SortieError, sqlite3.Error):
            return known  # without a store those of the workflow count

    async def _in_thread(self, call: Callable[[], T]) -> T:
        self._threads = self._threads or anyio.CapacityLimiter(_AT_ONCE)
        return await anyio.to_thread.run_sync(call, limiter=self._threads)
