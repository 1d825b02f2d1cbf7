"""Prometheus itself as a test server: the Debian package, on a free port of loopback, gone with who started it."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import apt

SECONDS_TO_START = 50
_LISTENS = re.compile(rb"address=(127\.0\.0\.1:[1-9]\d*)")


class Refused(Exception):
    """What Prometheus says of an expression that it does not take."""


class PrometheusServer:
    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What the expression gives now, each series with its labels and its value."""
        parameters = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?{parameters}", timeout=30) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(f"{expression}: {error.read().decode('utf-8', 'replace')}") from None
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def alerts(self) -> dict[str, str]:
        """The state of every alert that is not at rest."""
        with urllib.request.urlopen(f"{self.url}/api/v1/alerts", timeout=30) as response:
            found = json.load(response)["data"]["alerts"]
        return {one["labels"]["alertname"]: one["state"] for one in found}


def promtool(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    """How it ended, and everything that it said."""
    done = subprocess.run(
        ["promtool", *arguments],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=50,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def require() -> None:
    """Skip, or fail, where it cannot be had."""
    try:
        apt.installed(["prometheus", "promtool"], ["prometheus"])
    except apt.NotInstalled as problem:
        apt.not_tested(problem)


@contextmanager
def running(config: Path, place: Path) -> Iterator[PrometheusServer]:
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={place / 'data'}"]
    log = place / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command, "--web.listen-address=127.0.0.1:0"],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield PrometheusServer(_address(process, log))
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, once it answers."""
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        if found := _LISTENS.search(log.read_bytes()):
            url = f"http://{found[1].decode()}"
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                    return url
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
        said = log.read_text("utf-8", "replace")[-2000:]
        assert process.poll() is None, f"Prometheus did not start:\n{said}"
        assert time.monotonic() < deadline, f"Prometheus did not answer:\n{said}"
        time.sleep(0.05)
