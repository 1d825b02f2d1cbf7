"""This machine with room for two runs at once, whatever the workflow allows."""

from __future__ import annotations

from sortie import LocalHost
from sortie.hosts.host import HostInfo


class SmallHost(LocalHost):
    async def hosts(self) -> list[HostInfo]:
        return [HostInfo(name="local", capacity=2)]
