"""Runs the child process that serves the dashboard (`sortie.web`) on our socket.

No web server is imported here. The child reads the store by itself; what is not in the store we send it about once
a second.
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

from ..process.supervised_child import SupervisedChild
from ..runs.messages import encode
from ..workflow.config import ServerConfig
from ..workflow.variables import ENV_FILE
from .listen_socket import url_of
from .report import LiveReport

TOLD_EVERY = 1.0


class Orders(Struct, frozen=True, kw_only=True):
    """The first message to the child, through its standard input so that no other process can read it: what it
    serves, and on which socket. `server` is the section that the service was started with, even if the workflow has
    changed since."""

    descriptor: int
    database: str
    place: str
    is_plan: bool
    server: ServerConfig


class Dashboard:
    """`place` is what the store belongs to: a workflow or a plan. Takes ownership of the socket."""

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
        self._child = SupervisedChild(
            "dashboard",
            # With `-P` a file in the current directory is not imported as a module.
            [sys.executable, "-P", "-m", "sortie.web"],
            {**environ, **read_with},
            first=msgspec.json.encode(orders) + b"\n",
            inherited=[listening.fileno()],
        )

    async def run(self, look: Callable[[], LiveReport | None], announce: Callable[[], None]) -> None:
        """Until cancelled, or given up. `look` returns the present state, None before the store is open; `announce`
        is called in a thread as soon as it is open."""
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
                await self._child.run(told, TOLD_EVERY)
            finally:
                self.close()  # new connections are refused at once
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        """Release the address. May be called twice."""
        self._listening.close()


async def _announce(ready: anyio.Event, announce: Callable[[], None]) -> None:
    await ready.wait()
    await anyio.to_thread.run_sync(announce, abandon_on_cancel=True)
