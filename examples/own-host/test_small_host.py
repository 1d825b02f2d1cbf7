"""The small host keeps the contract of every host."""

from __future__ import annotations

from contextlib import asynccontextmanager

from small_host import SmallHost

from sortie.testing import HostContract


class TestSmallHost(HostContract):
    @asynccontextmanager
    async def host(self, directory):
        host = SmallHost(directory / "store.db")
        yield host
        await host.aclose()
