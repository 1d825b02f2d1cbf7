"""What the output of one turn says, whoever wrote it: the part of reading that all agents share. Pure.

A reader takes lines in any state of health: it never raises, and nothing but the agent's own last word makes it
believe that a turn completed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..core.model import Usage
from ..errors import AgentError
from .faults import fault_of_exit
from .port import AgentEvent, Alive, Said, Used

# A tool's result, an image in base64: real agents write lines of many megabytes.
LINE_LIMIT = 32 * 1024 * 1024

_LINE_CHARACTERS = 4_000
_LINES = 200

S = TypeVar("S", bound=Struct)

ALIVE = Alive()


class Ending(Struct, frozen=True):
    """How the process of a turn ended; `by_us` where it had said its last word and did not leave by itself."""

    code: int | None = 0
    signal: int | None = None
    stderr: str = ""
    by_us: bool = False


class TurnReader(ABC):
    """Reads one turn. `session_id` is the agent's name for the conversation, as far as it has told it."""

    def __init__(self, session_id: str = "") -> None:
        self.session_id = session_id
        self.finished = False
        self.failure: AgentError | None = None
        self.meter = Meter()

    @property
    def decided(self) -> bool:
        """Whether what is still to come can change nothing."""
        return self.finished or self.failure is not None

    def read(self, line: bytes) -> list[AgentEvent]:
        """What a line says; a sign of life at the least."""
        try:
            return list(self.events(line)) or [ALIVE]
        except (msgspec.DecodeError, RecursionError):  # not JSON, wrong types, or nested without end
            return [*self.unreadable(line)] or [ALIVE]

    @abstractmethod
    def events(self, line: bytes) -> Iterator[AgentEvent]:
        """May raise `msgspec.DecodeError` for what is not the agent's format."""

    def unreadable(self, line: bytes) -> Iterator[AgentEvent]:
        """A line that is no event. Programs print warnings among their JSON, so it is only text."""
        return speech(line[:_LINE_CHARACTERS].decode("utf-8", "replace"))

    def overhear(self, line: str) -> list[AgentEvent]:  # noqa: ARG002 - most say nothing there that counts
        """What a line of standard error says beyond being one; it may decide the turn, like any other line."""
        return []

    def verdict(self, ending: Ending) -> AgentError | None:
        """None only where the turn completed."""
        if self.failure:
            return self.failure
        if not self.finished:
            return self.explained(ending) or fault_of_exit(ending.code, ending.signal, ending.stderr)
        if not ending.by_us and ending.code != 0:
            said = f"The agent reported success and then ended with {how(ending)}."
            return AgentError(AgentError.TURN_FAILED, said)
        return None

    def explained(self, ending: Ending) -> AgentError | None:  # noqa: ARG002 - most have nothing to add
        """What this agent's exit without a last word is known to mean."""
        return None


class Meter:
    """Counts of all kinds as amounts since the last report; an amount is never negative."""

    def __init__(self) -> None:
        self._reported = Usage()

    def add(self, usage: Usage, *, cost_follows: bool = False) -> Iterator[Used]:
        """An amount on top of what was reported."""
        if usage != Usage():
            self._reported = self._reported.plus(usage)
            yield Used(usage, cost_follows)

    def reach(self, total: Usage, *, cost_follows: bool = False) -> Iterator[Used]:
        """A running total: only what goes beyond the amounts reported so far is new."""
        known = self._reported
        yield from self.add(
            Usage(
                max(total.input - known.input, 0),
                max(total.output - known.output, 0),
                max(total.cache_read - known.cache_read, 0),
                max(total.cost_usd - known.cost_usd, 0.0),
            ),
            cost_follows=cost_follows,
        )

    def start_at(self, total: Usage) -> None:
        """What a running total stood at before this turn began."""
        self._reported = total


def decode(line: bytes | msgspec.Raw, model: type[S]) -> S:
    """Strictly: raises `msgspec.DecodeError` where a field that matters has another type."""
    return msgspec.json.decode(line, type=model)


def speech(text: str) -> Iterator[Said]:
    """Text as lines for the log: none too long, not too many, no empty ones."""
    lines = [line for line in text[: _LINES * _LINE_CHARACTERS].splitlines() if line.strip()]
    for line in lines[:_LINES]:
        yield Said(line[:_LINE_CHARACTERS])


def brief(value: Any, limit: int = 200) -> str:
    """Anything on one line, cut: the arguments of a tool, an error."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace")
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def how(ending: Ending) -> str:
    return f"exit code {ending.code}" if ending.signal is None else f"signal {ending.signal}"
