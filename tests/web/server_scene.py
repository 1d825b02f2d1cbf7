"""A project whose service is started with a dashboard, and what is seen of both from outside."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sortie.process.process_table import Process, adopted, reap, snapshot
from tests.cli.scene import DEADLINE, Scene, wait_until

from .live_server import Answer


class ServerScene(Scene):
    @contextmanager
    def started(self, *arguments: str, environ: dict[str, str] | None = None) -> Iterator[Started]:
        """Any command in the background; what is still there at the end is ended."""
        log = self.directory / "command.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                self.command(*arguments), cwd=self.directory, stdout=output, stderr=output, env=environ
            )
        started = Started(popen, log)
        try:
            yield started
        finally:
            self.go()
            if popen.poll() is None:
                popen.terminate()
            try:
                popen.wait(DEADLINE)
            finally:
                popen.kill()
                reap(adopted(snapshot(), ()))  # what a service that was killed left, if it was left to us

    def set_server(self, section: str) -> None:
        self.workflow.write_text(self.workflow.read_text().replace("agent:", f"server: {{{section}}}\nagent:"))

    @contextmanager
    def running(self, port: int, *arguments: str) -> Iterator[Started]:
        """A service that has said where its dashboard is."""
        with self.started("run", "--port", str(port), *arguments) as service:
            service.url()
            yield service


class Started:
    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._log = log

    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def until_said(self, what: str) -> str:
        """The first line with this in it."""

        def line() -> str:
            found = [line for line in self.said().splitlines() if what in line]
            assert found or self.popen.poll() is None, f"it ended without saying {what}:\n{self.said()}"
            return found[0] if found else ""

        return str(wait_until(line))

    def url(self) -> str:
        found = re.search(r"dashboard: (http://\S+)", self.until_said("dashboard: http"))
        assert found
        return found[1]

    def dashboard(self) -> Process:
        """The process that answers."""
        found: list[Process] = wait_until(lambda: dashboards_of(self.pid))
        return found[0]

    def wait(self) -> int:
        return self.popen.wait(DEADLINE)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.wait()


def dashboards_of(pid: int) -> list[Process]:
    return [
        process
        for process in snapshot().values()
        if process.ppid == pid and not process.ended and b"sortie.web" in _command(process.pid)
    ]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_in_table(process: Process) -> bool:
    """Also as a zombie, unless it was left to us."""
    reap(found for found in snapshot().values() if found.pid == process.pid and found.ppid == os.getpid())
    found = snapshot().get(process.pid)
    return found is not None and found.start_ticks == process.start_ticks


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def can_be_taken(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def get(port: int, path: str, host: str = "127.0.0.1", **headers: str) -> Answer:
    with closing(http.client.HTTPConnection(host, port, timeout=DEADLINE)) as connection:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def without_port() -> dict[str, str]:
    """An environment in which nobody says anything about a server, as people have it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SORTIE_SERVER_")}
