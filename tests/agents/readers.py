"""Every reader there is, with the recordings that belong to it."""

from __future__ import annotations

from collections.abc import Callable

from sortie.agents.claude.claude_stream import ClaudeReader
from sortie.agents.codex.codex_stream import CodexReader
from sortie.agents.copilot.copilot_stream import CopilotReader
from sortie.agents.gemini.gemini_stream import GeminiReader
from sortie.agents.opencode.opencode_stream import OpenCodeReader
from sortie.agents.turn_reader import TurnExit, TurnReader

from .acp_player import AcpPlayer
from .playing import TRANSCRIPTS, Played

READERS: dict[str, Callable[[], TurnReader]] = {
    "acp": AcpPlayer,
    "claude": ClaudeReader,
    "codex": CodexReader,
    "copilot": CopilotReader,
    "gemini": GeminiReader,
    "opencode": OpenCodeReader,
}


def transcripts_of(kind: str) -> list[str]:
    return sorted(path.stem for path in TRANSCRIPTS.glob(f"{kind}-*.jsonl"))


def completed(kind: str, lines: list[bytes]) -> bool:
    return Played(READERS[kind](), lines, TurnExit()).error is None
