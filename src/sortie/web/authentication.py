"""Who sent a request: the scope of its token (from the store), and whether an agent sent it (from the kernel)."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time

from starlette.types import Scope as Connection

from ..errors import SortieError
from ..store.web_tokens import Scope, tokens
from .refusals import Refusal
from .sender_process import sender_of
from .site import Site
from .threads import Threads
from .tokens import granted, of_workflow

# Both take a thread; many requests at once take turns.
_AT_ONCE = 8


class Authentication:
    def __init__(self, site: Site) -> None:
        self.site = site
        self._threads = Threads(_AT_ONCE)
        self._known_lately: list[tuple[str, Scope]] = []
        self._read_at = -math.inf
        self._reading: asyncio.Lock | None = None

    async def scope_of(self, token: str) -> Scope | None:
        """The scope of a token; read from the store each time, because revoking takes effect at once."""
        return await self._threads.run(lambda: granted(token, self._known()))

    async def scope_lately(self, token: str) -> Scope | None:
        """Its scope a moment ago, for streams that check it all the time: the store is read once for all of
        them."""
        self._reading = self._reading or asyncio.Lock()
        async with self._reading:
            if time.monotonic() - self._read_at >= self.site.tokens_stand_for:
                asked_at = time.monotonic()
                self._known_lately, self._read_at = await self._threads.run(self._known), asked_at
        return granted(token, self._known_lately)

    async def refuse_agents(self, connection: Connection) -> None:
        """Raise where an agent's process is behind it: no agent approves of itself, whatever token it has found."""
        client, server = tuple(connection["client"]), tuple(connection["server"])
        report = self.site.live.report
        service = report.pid if report else 0
        sender = await self._threads.run(sender_of, client, server, service)
        if sender == "agent":
            said = "Only a person may do this, and the request comes from inside a run of Sortie."
            raise Refusal(403, "agent", said)
        if sender == "nobody":
            said = "The client was gone before it could be checked, so it is unknown whether a person sent this."
            raise Refusal(403, "gone", said)

    def _known(self) -> list[tuple[str, Scope]]:
        known = of_workflow(self.site.server)
        try:
            with self.site.looking() as db:
                return known + [(row.digest, row.scope) for row in tokens(db)]
        except (SortieError, sqlite3.Error):
            return known  # without a store those of the workflow count
