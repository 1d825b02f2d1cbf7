"""A stand-in for an agent of the Agent Client Protocol that plays a recording.

    python acp_server.py RECORDING LOG [METHOD=DEED...]

To each request it says everything up to the answer that was given then; where the agent asked something, it waits
for what it is told. Every line that it gets goes to LOG, its environment first. A deed is done instead of the
answer to that request: `exit` with code 3, `kill` itself, `silence` from then on, `hold` everything until it is
cancelled, `pause` before the answer until then, `refuse` with an error, or `{...}`, this result.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any


class Player:
    def __init__(self, recording: str, deeds: dict[str, str]) -> None:
        with open(recording, encoding="utf-8") as file:
            self.lines = file.read().splitlines()
        self.deeds = deeds
        self.wanted = None

    def hear(self, message: dict[str, Any]) -> None:
        if "method" in message and "id" in message:
            self.request(message)
        elif message.get("method") == "session/cancel" or "method" not in message:
            self.play()

    def request(self, message: dict[str, Any]) -> None:
        deed = self.deeds.get(message["method"], "")
        number = self.wanted = message["id"]
        if deed == "exit":
            sys.exit(3)
        elif deed == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif deed == "silence":
            time.sleep(600)
        elif deed == "refuse":
            say(
                {"id": number, "error": {"code": -32603, "message": "Internal error", "data": {"details": "not I"}}}
            )
        elif deed.startswith("{"):
            say({"id": number, "result": json.loads(deed)})
        elif deed == "pause":
            while not is_answer(self.lines[0], number):
                print(self.lines.pop(0), flush=True)
        elif deed != "hold":
            self.play()

    def play(self) -> None:
        if not any(is_answer(line, self.wanted) for line in self.lines):
            say({"id": self.wanted, "error": {"code": -32601, "message": "Method not found"}})
            return
        while self.lines:
            line = self.lines.pop(0)
            print(line, flush=True)
            message = json.loads(line)
            if is_answer(line, self.wanted) or ("method" in message and "id" in message):
                return


def is_answer(line: str, number: int | None) -> bool:
    message = json.loads(line)
    return "method" not in message and message.get("id") == number


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main(recording: str, log: str, *deeds: str) -> None:
    player = Player(recording, dict(deed.split("=", 1) for deed in deeds))
    with open(log, "a", encoding="utf-8") as file:
        print(json.dumps({"environment": dict(os.environ)}), file=file, flush=True)
        for line in sys.stdin:
            print(line.rstrip("\n"), file=file, flush=True)
            player.hear(json.loads(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
