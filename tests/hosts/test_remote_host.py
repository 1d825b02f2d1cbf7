"""A host in another process keeps the contract: all that crosses is frames, and its runs outlive their client."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from sortie.runs import messages as say
from sortie.runs.spec import decode_spec, encode_spec
from sortie.testing.host_contract import HostContract
from sortie.testing.remote_host import NAME, RemoteHost, launch
from sortie.testing.run_driver import end_of, follow, of_kind, spec_for, until, written


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

    async def test_a_run_outlives_the_process_that_started_it(self, tmp_path):
        async with self.made(tmp_path) as host:
            spec = spec_for(tmp_path, f"echo $$ > {tmp_path}/pid; read line; echo done")
            (tmp_path / "spec").write_bytes(encode_spec(spec))
            arguments = [sys.executable, "-m", __name__, str(self.place), str(tmp_path / "spec")]
            orchestrator = subprocess.Popen(arguments)
            (pid,) = await written(tmp_path / "pid")
            orchestrator.kill()
            orchestrator.wait()
            assert Path(f"/proc/{pid}").exists()
            await host.attach(spec.run_id)
            heard = await follow(host, spec.run_id)
            assert len(of_kind(heard, say.ProcessSpawned)) == 1
            assert end_of(heard).outcome.status == "succeeded"


async def start_and_wait(directory, spec):
    """An orchestrator that dies in the middle: it has read the question of the process, and never answers."""
    host = RemoteHost(directory)
    await host.start(spec.run_id, "fence", spec, NAME)
    asked = await until(host, spec.run_id, say.TurnAsked)
    await host.answer(spec.run_id, asked.number, say.Proceed())
    await until(host, spec.run_id, say.ProcessSpawned)
    await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(start_and_wait, Path(sys.argv[1]), decode_spec(Path(sys.argv[2]).read_bytes()))
