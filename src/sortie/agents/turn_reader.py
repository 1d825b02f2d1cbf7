"""What the output of one turn says, whoever wrote it: the part of reading that all agents share. Pure.

A reader takes lines in any state of health: it never raises, and nothing but the agent's own final event makes it
believe that a turn completed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.model import Usage
from ..errors import AgentError
from ..protocol.session_files import SERVER
from .agent import AgentEvent, ErrorReported, Heartbeat, Said, StderrLine, Used
from .error_kinds import classify_exit, ended_by_itself, how_it_ended

# A tool's result, an image in base64: real agents write lines of many megabytes.
LINE_LIMIT = 32 * 1024 * 1024

_LINE_CHARACTERS = 4_000
_LINES = 200

# Escapes one after the other, so that an escaped backslash begins none; whole pairs first, then the halves.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S
)

S = TypeVar("S", bound=Struct)

ALIVE = Heartbeat()
NOTHING_USED = Usage()


class TurnExit(Struct, frozen=True):
    """How the process of a turn ended; `by_us` where its final event had come and it did not exit by itself."""

    code: int | None = 0
    signal: int | None = None
    stderr: str = ""
    by_us: bool = False


class TurnReader(ABC):
    """Reads one turn. `session_id` is the agent's name for the conversation, `model` that of the model which it
    works with, as far as it has told them.

    `tools` are those at work, by the id of the call, `denied` those that it was not allowed to use. `limit_until`
    is when a limit of the provider ends, where that was told.
    """

    def __init__(self, session_id: str = "") -> None:
        self.session_id = session_id
        self.model = ""
        self.finished = False
        self.failure: AgentError | None = None
        self.meter = Meter()
        self.tools: dict[str, str] = {}
        self.denied: set[str] = set()
        self.limit_until: float | None = None
        self._partial_line = ""

    @property
    def decided(self) -> bool:
        """Whether what is still to come can change nothing."""
        return self.finished or self.failure is not None

    def read(self, line: bytes) -> list[AgentEvent]:
        """What a line says; a heartbeat at the least."""
        try:
            return list(self.events(line)) or [ALIVE]
        except (msgspec.DecodeError, RecursionError):  # not JSON, wrong types, or nested without end
            return unreadable_line(line)

    @abstractmethod
    def events(self, line: bytes) -> Iterator[AgentEvent]:
        """May raise `msgspec.DecodeError` for what is not the agent's format."""

    def read_stderr(self, line: str) -> list[AgentEvent]:  # noqa: ARG002 - most say nothing there that counts
        """What a line of standard error says beyond being one; it may decide the turn, like any other line."""
        return []

    def works_with(self, model: Any) -> None:
        """What is no name is none; nothing else of the line it came with is doubted for it."""
        if isinstance(model, str) and model:
            self.model = model

    def server_failed(self, server: str, detail: str) -> Iterator[AgentEvent]:
        """An MCP server did not start; without ours the turn fails."""
        yield ErrorReported(detail)
        if server == SERVER:
            self.failure = AgentError(AgentError.TOOLS, detail)

    def message_piece(self, text: str) -> Iterator[AgentEvent]:
        """Text that comes in pieces that end anywhere; only whole lines are reported."""
        *lines, self._partial_line = (self._partial_line + text).split("\n")
        yield from message_lines("\n".join(lines))
        if len(self._partial_line) > _LINE_CHARACTERS:
            yield from self.end_of_message()

    def end_of_message(self) -> Iterator[AgentEvent]:
        rest, self._partial_line = self._partial_line, ""
        yield from message_lines(rest)

    def end_turn(self, failure: AgentError | None) -> Iterator[AgentEvent]:
        """For the final event; what went wrong before it counts more than what it says."""
        self.finished = True
        self.failure = self.failure or failure
        if self.failure:
            yield ErrorReported(self.failure.message)

    def verdict(self, ending: TurnExit) -> AgentError | None:
        """None only where the turn completed."""
        if self.failure:
            return self.failure
        if not self.finished:
            code, signal, by_us = ending.code, ending.signal, ending.by_us
            known = ending if ended_by_itself(code, signal, by_us=by_us) else replace(ending, stderr="")
            return self.explain_exit(known) or classify_exit(code, signal, ending.stderr, by_us=by_us)
        if not ending.by_us and ending.code != 0:
            said = f"The agent reported success and then {how_it_ended(ending.code, ending.signal)}."
            return AgentError(AgentError.TURN_FAILED, said)
        return None

    def explain_exit(self, ending: TurnExit) -> AgentError | None:  # noqa: ARG002 - most have nothing to add
        """What this agent's exit without a final event is known to mean.

        Of one that a signal ended, standard error is not told: it would explain nothing.
        """
        return None


class Meter:
    """Counts of all kinds as amounts since the last report; an amount is never negative.

    `reported` is what a running total stood at before this turn began.
    """

    def __init__(self, reported: Usage = NOTHING_USED) -> None:
        self._reported = reported

    def add(self, usage: Usage, *, cost_follows: bool = False) -> Iterator[Used]:
        """An amount on top of what was reported."""
        if usage != NOTHING_USED:
            self._reported = self._reported.plus(usage)
            yield Used(usage, cost_follows)

    def reach(self, total: Usage) -> Iterator[Used]:
        """A running total: only what goes beyond the amounts reported so far is new."""
        return self.add(beyond(total, self._reported))


def beyond(total: Usage, known: Usage) -> Usage:
    """What the total has more than was known; a total that fell back has nothing."""
    return Usage(
        max(total.input - known.input, 0),
        max(total.output - known.output, 0),
        max(total.cache_read - known.cache_read, 0),
        max(total.cost_usd - known.cost_usd, 0.0),
    )


def decode(line: bytes | msgspec.Raw, model: type[S]) -> S:
    """Strictly: raises `msgspec.DecodeError` where a field that matters has another type.

    Text is another matter: what no character can be made of becomes U+FFFD. Agents pass on what their tools print.
    """
    try:
        return msgspec.json.decode(line, type=model)
    except (msgspec.DecodeError, UnicodeDecodeError):
        repaired = _repaired(raw := bytes(line))
        if repaired == raw:
            raise
        return msgspec.json.decode(repaired, type=model)


def _repaired(line: bytes) -> bytes:
    """JSON whose strings hold characters only: no bytes that are not UTF-8, no half of a surrogate pair."""
    text = line.decode("utf-8", "replace").encode()
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)


def readable(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """All of them as far as they can be read; a heartbeat at the least."""
    read: list[AgentEvent] = []
    try:
        read.extend(events)
    except (msgspec.DecodeError, RecursionError):
        pass  # wrong types say nothing, but somebody sent them
    return read or [ALIVE]


def unreadable_line(line: bytes) -> list[AgentEvent]:
    """A line that is no event. Programs print warnings among their JSON, which nobody said."""
    return [*program_lines(line[:_LINE_CHARACTERS].decode("utf-8", "replace"))] or [ALIVE]


def message_lines(text: str) -> Iterator[Said]:
    """What the agent said as lines for the log: none too long, not too many, no empty ones."""
    return map(Said, _lines(text))


def program_lines(text: str) -> Iterator[StderrLine]:
    """The same for what the program, and not the agent, has to say."""
    return map(StderrLine, _lines(text))


def _lines(text: str) -> list[str]:
    lines = [line for line in text[: _LINES * _LINE_CHARACTERS].splitlines() if line.strip()]
    return [line[:_LINE_CHARACTERS] for line in lines[:_LINES]]


def shorten(value: Any, limit: int = 200) -> str:
    """Anything on one line, cut: the arguments of a tool, an error."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace")
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
