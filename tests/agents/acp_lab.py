"""Runs a stand-in for an agent of the Agent Client Protocol, and knows what it was told."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from sortie.agents.acp.acp import AcpAgent
from sortie.agents.agent import AgentSettings
from sortie.errors import AgentError

from .playing import TRANSCRIPTS

SERVER = Path(__file__).with_name("acp_server.py")


def agent(command="", read_timeout=20.0, base=Path(), **options):
    settings = AgentSettings(kind="acp", command=command, options=options, read_timeout=read_timeout, base=base)
    assert AcpAgent.check(settings) == []
    return AcpAgent.from_settings(settings)


class Lab:
    """Runs a stand-in, and knows what it was told."""

    def __init__(self, tmp_path, make_order, recorder):
        self.path = tmp_path
        self.log = tmp_path / "requests.jsonl"
        self.make_order = make_order
        self.recorder = recorder

    def command(self, recording, *deeds):
        words = [sys.executable, str(SERVER), str(TRANSCRIPTS / f"acp-{recording}.jsonl"), str(self.log), *deeds]
        return shlex.join(words)

    async def open(self, recording, *deeds, order=None, read_timeout=20.0, more="", **options):
        chosen = agent(self.command(recording, *deeds) + more, read_timeout, **options)
        return await chosen.open(self.make_order(**(order or {})), self.recorder)

    async def run(self, recording, *deeds, prompts=("Go.",), **more):
        session = await self.open(recording, *deeds, **more)
        try:
            for number, prompt in enumerate(prompts, 1):
                await session.turn(prompt, number)
        finally:
            await session.close()

    async def fail(self, recording, *deeds, **more):
        with pytest.raises(AgentError) as caught:
            await self.run(recording, *deeds, **more)
        return caught.value

    @property
    def told(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()[1:]]

    @property
    def requests(self):
        return [(one["method"], one["params"]) for one in self.told if "method" in one and "id" in one]

    def asked(self, method):
        return next(params for name, params in self.requests if name == method)

    def events(self, kind):
        return [event for event in self.recorder.events if isinstance(event, kind)]
