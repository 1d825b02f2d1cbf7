"""What a reader makes of recorded output: every line fed, the events kept, the verdict asked for."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

from sortie.agents.agent import Said, ToolFinished, ToolStarted, Used
from sortie.agents.turn_reader import TurnExit, TurnReader
from sortie.core.model import Usage

WELL = TurnExit()
TRANSCRIPTS = Path(__file__).parent / "transcripts"


def recorded(name: str) -> list[bytes]:
    return (TRANSCRIPTS / f"{name}.jsonl").read_bytes().splitlines()


class Played:
    def __init__(self, reader: TurnReader, lines: list[bytes], ending: TurnExit = WELL) -> None:
        self.reader = reader
        self.events: list[Any] = [event for line in lines for event in reader.read(line)]
        self.events += [event for line in ending.stderr.splitlines() for event in reader.read_stderr(line)]
        self.error: Any = reader.verdict(ending)

    @property
    def outcome(self) -> str:
        return self.error.kind if self.error else "completed"

    @property
    def usage(self) -> Usage:
        return reduce(Usage.plus, (event.usage for event in self.events if isinstance(event, Used)), Usage())

    @property
    def said(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Said)]

    @property
    def tools(self) -> list[str]:
        return [event.name for event in self.events if isinstance(event, ToolStarted)]

    @property
    def failed_tools(self) -> list[str]:
        return [event.name for event in self.events if isinstance(event, ToolFinished) and event.failed]
