"""GitHub's REST API on loopback by the npm package `emulate`: stateful, and written by others than the adapter.

What differs from GitHub, as far as we met it: any unknown token is taken for the first user, times have
milliseconds, labels are told apart by case, there is no ETag, no secondary limit, no App, no dependency and no
sub-issue. The proxy of `fault_proxy.py` stands before it and makes good for that.
"""

from __future__ import annotations

import json
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from .. import npm

NODE = "24.21.0"
EMULATE = "0.12.2"  # the tag `latest` is another program
OWNER, NAME = "octocat", "hello"
REPOSITORY = f"{OWNER}/{NAME}"
PEOPLE = (OWNER, "ann", "bob")
SEED = {
    "tokens": {f"token-of-{login}": {"login": login, "scopes": ["repo"]} for login in PEOPLE},
    "github": {
        "users": [{"login": login, "name": login, "email": f"{login}@example.test"} for login in PEOPLE],
        "repos": [{"owner": OWNER, "name": name, "auto_init": True} for name in (NAME, "other")],
    },
}
SECONDS_TO_START = 30


class Emulate:
    """One process; it ends when its input does, so with whoever started it."""

    def __init__(self) -> None:
        machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        packages = [f"emulate@{EMULATE}", f"node-linux-{machine}@{NODE}"]
        node = npm.installed(f"emulate-{EMULATE}-node-{NODE}", packages, f"node-linux-{machine}/bin/node")
        module = node.parents[2] / "emulate" / "dist" / "api.js"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as seed:
            json.dump(SEED, seed)
            seed.flush()
            script = Path(__file__).with_name("github_emulate.mjs")
            self._process = subprocess.Popen(
                [str(node), str(script), str(module), seed.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.url = self._line()
        assert self.url.startswith("http://"), f"emulate did not start: it said {self.url!r}"
        self._calls = 0

    def reset(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("reset\n")
        self._process.stdin.flush()
        assert self._line() == "reset"

    def stop(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(SECONDS_TO_START)
        self._process.stdout.close()

    def call(self, method: str, path: str, body: object = None, *, by: str = OWNER) -> Any:
        """What somebody else does there, not by way of the adapter."""
        data = None if body is None else json.dumps(body).encode()
        self._calls += 1
        # Whoever it does not know it takes for the owner, and it limits the calls of each: nobody makes so many.
        token = f"owner-{self._calls // 1000}" if by == OWNER else f"token-of-{by}"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        asked = Request(self.url + path, data, headers, method=method)
        try:
            with urlopen(asked, timeout=SECONDS_TO_START) as answer:
                raw = answer.read()
        except HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.code} {error.read()[:300]!r}") from None
        return json.loads(raw) if raw else None

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()
