"""Codex as a stand-in that plays recordings, and what was said to it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from sortie.agents.agent import AgentSettings
from sortie.agents.codex.codex import Codex

from .playing import TRANSCRIPTS

THREAD = "01a1e228-2f54-7131-9768-52592eb511e5"
SERVER = Path(__file__).with_name("codex_server.py")
TOOLS = {"type": "stdio", "command": "/bin/tools", "args": ["mcp-server"], "env": {"A": "1"}}


def agent(command="", read_timeout=20.0, kind=Codex, **options):
    settings = AgentSettings(kind="codex", command=command, options=options, read_timeout=read_timeout)
    assert Codex.check(settings) == []
    return kind.from_settings(settings)


class Lab:
    """Runs Codex as the stand-in, and knows what it was asked."""

    def __init__(self, tmp_path, make_order, recorder):
        self.log = tmp_path / "requests.jsonl"
        self.make_order = make_order
        self.recorder = recorder

    def command(self, recording, twist="", *more):
        words = [sys.executable, str(SERVER), str(TRANSCRIPTS / f"{recording}.jsonl"), str(self.log), twist, *more]
        return shlex.join(words)

    async def run(
        self, recording, prompts=("Go.",), twist="", order=None, read_timeout=20.0, environment=None, **options
    ):
        fields = dict(order or {})
        if environment:
            fields["environment"] = {**self.make_order().environment, **environment}
        codex = agent(self.command(recording, twist), read_timeout, **options)
        session = await codex.open(self.make_order(**fields), self.recorder)
        try:
            for number, prompt in enumerate(prompts, 1):
                await session.turn(prompt, number)
        finally:
            await session.close()

    @property
    def sent(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()[1:]]

    @property
    def started(self):
        return json.loads(self.log.read_text().splitlines()[0])

    def asked(self, method):
        return [message.get("params") for message in self.sent if message.get("method") == method]
