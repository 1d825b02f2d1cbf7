"""A stand-in for `codex app-server` that plays a recording: to each request it answers what was answered then.

    python codex_server.py RECORDING LOG TWIST ARGUMENTS...

Its arguments, and then every line that it gets, go to LOG. After a question of its own it waits for the answer.
TWIST is `METHOD=DEED`, done instead of the answer to that request: `exit` with a complaint, `kill` itself, keep
`silence` from then on, `refuse` with an error, answer `nonsense`; or be `mute` after the answer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

Message = dict[str, Any]


class Server:
    def __init__(self, recording: str, log: str, twist: str, arguments: list[str]) -> None:
        with open(recording, encoding="utf-8") as file:
            self.lines = file.read().splitlines()
        self.log = log
        self.method, _, self.deed = twist.partition("=")
        self.note(json.dumps({"arguments": arguments}))

    def serve(self) -> None:
        while line := self.hear():
            message = json.loads(line)
            if "method" in message and "id" in message:
                self.answer(message)

    def hear(self) -> str:
        line = sys.stdin.readline()
        self.note(line.rstrip("\n"))
        return line

    def note(self, line: str) -> None:
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{line}\n" if line else "")

    def answer(self, request: Message) -> None:
        twisted = request["method"] == self.method
        if twisted and self.deed != "mute":
            self.misbehave(request["id"])
            return
        for number, line in enumerate(self.played(request["id"])):
            if twisted and number > 0:
                return
            print(line, flush=True)
            if not is_answer(line) and "id" in json.loads(line):
                self.hear()

    def played(self, number: int) -> Iterator[str]:
        """The recorded answer with what followed it, up to the next one."""
        start = next((n for n, line in enumerate(self.lines) if is_answer(line, number)), None)
        if start is None:
            yield json.dumps({"id": number, "result": {}})
            return
        yield self.lines[start]
        for line in self.lines[start + 1 :]:
            if is_answer(line):
                return
            yield line

    def misbehave(self, number: int) -> None:
        match self.deed:
            case "exit":
                self.complain()
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "silence":
                time.sleep(600)
            case "refuse":
                print(json.dumps({"id": number, "error": {"code": -32600, "message": "not for me"}}), flush=True)
            case "nonsense":
                print(json.dumps({"id": number, "result": {"thread": 5}}), flush=True)

    def complain(self) -> NoReturn:
        sys.exit("Error: unknown variant `x`\nin `config`")


def is_answer(line: str, number: int | None = None) -> bool:
    message = json.loads(line)
    return "method" not in message and number in (None, message.get("id"))


if __name__ == "__main__":
    Server(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]).serve()
