"""A host in another process keeps the contract: all that crosses is frames, and its runs outlive their client."""

from __future__ import annotations

import signal
from contextlib import asynccontextmanager

from sortie.testing.host_contract import HostContract
from sortie.testing.remote_host import NAME, RemoteHost, launch


class TestRemoteHost(HostContract):
    remote = True
    on = NAME

    @asynccontextmanager
    async def host(self, directory):
        self.place = directory / "machine"
        self.worker = launch(self.place)
        try:
            yield RemoteHost(self.place)
        finally:
            self.worker.terminate()
            self.worker.wait()

    async def another_client(self, host):
        return RemoteHost(self.place)

    async def kill_machine(self, host):
        self.worker.kill()
        self.worker.wait()

    async def freeze_machine(self, host):
        self.worker.send_signal(signal.SIGSTOP)

    async def thaw_machine(self, host):
        self.worker.send_signal(signal.SIGCONT)
