"""The host in this process keeps the contract, and ends its runs when it is closed."""

from __future__ import annotations

from contextlib import asynccontextmanager

from sortie.hosts.local_host import LocalHost, StatePaths
from sortie.testing.host_contract import HostContract


class TestLocalHost(HostContract):
    @asynccontextmanager
    async def host(self, directory):
        host = LocalHost(state=StatePaths(directory / "store.db"))
        try:
            yield host
        finally:
            await host.aclose()
