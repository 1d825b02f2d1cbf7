"""The dashboard as the service sees it: a process that answers on our socket, and is told how things stand.

Nothing of a web server is loaded here. The process reads the store by itself; what it cannot read there is what we
tell it about once a second.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from ..process.companion import Companion
from ..runs.messages import encode
from ..workflow.config import ServerConfig
from ..workflow.variables import ENV_FILE
from .listening import url_of
from .report import LiveReport

TOLD_EVERY = 1.0


class Orders(Struct, frozen=True, kw_only=True):
    """What the process is told first, in a way that nobody can watch: what it serves, and on which socket. The
    section `server` is the one that the service was started with, whatever the workflow says by now."""

    descriptor: int
    database: str
    place: str
    is_plan: bool
    server: ServerConfig


class Dashboard:
    """`place` is what the store belongs to: a workflow or a plan. The socket is ours from now on."""

    def __init__(
        self,
        listening: socket.socket,
        server: ServerConfig,
        database: Path,
        place: Path,
        environ: Mapping[str, str],
        *,
        env_file: Path | None = None,
        is_plan: bool = False,
    ) -> None:
        self._listening = listening
        self.database = database
        self.url = server.public_url or url_of(listening)
        orders = Orders(
            descriptor=listening.fileno(),
            database=str(database),
            place=str(place.absolute()),
            is_plan=is_plan,
            server=server,
        )
        read_with = {ENV_FILE: str(env_file.absolute())} if env_file else {}
        self._companion = Companion(
            "dashboard",
            # With `-P` nothing that lies in our directory is mistaken for a module.
            [sys.executable, "-P", "-m", "sortie.web"],
            {**environ, **read_with},
            first=msgspec.json.encode(orders) + b"\n",
            inherited=[listening.fileno()],
        )

    async def run(self, look: Callable[[], LiveReport | None], announce: Callable[[], None]) -> None:
        """Until cancelled, or given up. `look` is how things stand, None before the store is open; `announce` is
        called once it is, in a thread."""
        ready = anyio.Event()

        def told() -> bytes | None:
            report = look()
            if report is None:
                return None
            ready.set()
            return encode(report) + b"\n"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_announce, ready, announce)
            try:
                await self._companion.run(told, TOLD_EVERY)
            finally:
                self.close()  # whoever comes now is refused at once
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        """Give the address back. May be called twice."""
        self._listening.close()


async def _announce(ready: anyio.Event, announce: Callable[[], None]) -> None:
    await ready.wait()
    await anyio.to_thread.run_sync(announce, abandon_on_cancel=True)
