"""Slack on loopback, as far as incoming webhooks and the history of a channel go, written by others than us."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from .. import npm
from ..servers.emulate import EMULATE, NODE

SECONDS = 30


class SlackServer:
    """One process; it ends when its input does, so with whoever started it. Raises `npm.NotInstalled`."""

    def __init__(self) -> None:
        machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        packages = [f"emulate@{EMULATE}", f"node-linux-{machine}@{NODE}"]
        node = npm.installed(f"emulate-{EMULATE}-node-{NODE}", packages, f"node-linux-{machine}/bin/node")
        module = node.parents[2] / "emulate" / "dist" / "api.js"
        script = Path(__file__).with_name("slack_emulate.mjs")
        self._process = subprocess.Popen(
            [str(node), str(script), str(module)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()

    @property
    def webhook(self) -> str:
        return f"{self.url}/services/T000000001/B000000001/XXXXXXXXXXXXXXXX"

    def messages(self) -> list[dict[str, Any]]:
        (general,) = [one for one in self._ask("conversations.list")["channels"] if one["name"] == "general"]
        found: list[dict[str, Any]] = self._ask("conversations.history", channel=general["id"])["messages"]
        return found

    def _ask(self, method: str, **fields: str) -> dict[str, Any]:
        headers = {"Authorization": "Bearer xoxb-test", "Content-Type": "application/json"}
        asked = Request(f"{self.url}/api/{method}", json.dumps(fields).encode(), headers)
        with urlopen(asked, timeout=SECONDS) as answer:
            told: dict[str, Any] = json.load(answer)
        assert told["ok"], told
        return told

    def close(self) -> None:
        self._process.communicate(timeout=SECONDS)
