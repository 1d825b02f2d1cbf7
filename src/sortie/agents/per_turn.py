"""Agents whose process lives for a turn: one process per turn, the conversation resumed by its name.

A turn completed only if the agent's own final event says so. A conversation that the agent will not resume is begun
anew, but only in the first turn of a run: only that prompt says all that a fresh conversation needs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, ClassVar, TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..errors import AgentError
from .agent import (
    ErrorReported,
    ModelNamed,
    Reporter,
    SessionOpened,
    SessionOrder,
    StderrLine,
    TurnFinished,
    is_session_id,
)
from .cli_agent import CliAgent
from .command_line import start_command
from .turn_reader import LINE_LIMIT, TurnExit, TurnReader

if TYPE_CHECKING:
    from ..process.child import Child

_INTERRUPT_TIMEOUT = 2.0
_STDERR_LINES = 12
_STDERR_LINE = 2_000

Options = TypeVar("Options", bound=Struct)


class Turn(Struct, frozen=True, kw_only=True):
    """One turn to run: `session_id` is empty for a fresh conversation."""

    order: SessionOrder
    prompt: str
    session_id: str = ""


class Invocation(Struct, frozen=True, kw_only=True):
    """How the program is called for one turn; `session_id` where we chose the name of a fresh conversation."""

    arguments: list[str]
    stdin: str = ""
    environment: dict[str, str] = {}
    session_id: str = ""


class PerTurnAgent(CliAgent[Options]):
    """After its final event a process has `exit_grace` seconds to exit; then it is ended, and that event counts.

    One that goes on although the turn has failed has `exit_grace_after_failure`.
    """

    exit_grace: ClassVar[float] = 10.0
    exit_grace_after_failure: ClassVar[float] = 3.0

    async def open(self, order: SessionOrder, reporter: Reporter) -> PerTurnSession:
        return PerTurnSession(self, order, reporter)

    @abstractmethod
    def invocation(self, turn: Turn) -> Invocation: ...

    @abstractmethod
    def reader(self, turn: Turn) -> TurnReader:
        """A reader for this turn, made before its process starts; it knows the name that we chose, if we did."""

    def prepare(self, order: SessionOrder) -> None:
        """Whatever must be in place before the first process of a session; nothing by default."""


class PerTurnSession:
    def __init__(self, agent: PerTurnAgent[Options], order: SessionOrder, reporter: Reporter) -> None:
        self._agent = agent
        self._command = agent.located(order)
        self._order = order
        self._reporter = reporter
        self._session_id = order.resume
        self._announced = ""
        self._model = ""
        self._child: Child | None = None
        agent.prepare(order)

    async def turn(self, prompt: str, number: int) -> None:
        try:
            await self._run_or_start_over(prompt, number)
        except AgentError as error:
            self._reporter.report(TurnFinished(error.kind))
            raise
        self._reporter.report(TurnFinished("completed"))

    async def interrupt(self) -> None:
        if self._child is not None:
            self._child.interrupt()
            with anyio.move_on_after(_INTERRUPT_TIMEOUT):
                await self._child.wait()

    async def close(self) -> None:
        if self._child is not None:
            await self._child.end()
            self._child = None

    async def _run_or_start_over(self, prompt: str, number: int) -> None:
        try:
            await self._run(prompt)
        except AgentError as error:
            if error.kind != AgentError.SESSION or number > 1 or not self._session_id:
                raise
            self._reporter.report(ErrorReported(f"{error.message} A fresh conversation begins."))
            self._session_id = ""
            await self._run(prompt)

    async def _run(self, prompt: str) -> None:
        turn = Turn(order=self._order, prompt=prompt, session_id=self._session_id)
        invocation = self._agent.invocation(turn)
        reader = self._agent.reader(replace(turn, session_id=turn.session_id or invocation.session_id))
        child = self._child = await start_command(
            self._command,
            invocation.arguments,
            self._order,
            {**self._agent.environment(self._order), **invocation.environment},
        )
        await self._reporter.process_started(child.identity)
        stderr_lines = await self._read_output(child, invocation.stdin.encode("utf-8", "replace"), reader)
        await child.wait()
        exit = await child.end()
        self._child = None
        ending = TurnExit(exit.code, exit.signal, "\n".join(stderr_lines), by_us=exit.ended_by_us)
        if error := reader.verdict(ending):
            raise error

    async def _read_output(self, child: Child, stdin: bytes, reader: TurnReader) -> deque[str]:
        """Until the process has ended, or its final event has come and it does not exit."""
        stderr_lines: deque[str] = deque(maxlen=_STDERR_LINES)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(child.feed, stdin)
                tasks.start_soon(self._read_stderr, child, stderr_lines, reader, scope)
                async for line in child.lines(LINE_LIMIT):
                    for event in reader.read(line):
                        self._reporter.report(event)
                    self._note_names(reader)
                    scope.deadline = self._deadline(reader, scope.deadline)
        if scope.cancelled_caught:
            await child.end()
        return stderr_lines

    def _deadline(self, reader: TurnReader, deadline: float) -> float:
        """When the process must be gone: never, unless nothing that it could still say changes anything."""
        if not reader.decided:
            return math.inf
        wait = self._agent.exit_grace if reader.finished else self._agent.exit_grace_after_failure
        return min(deadline, anyio.current_time() + wait)

    async def _read_stderr(
        self, child: Child, stderr_lines: deque[str], reader: TurnReader, scope: anyio.CancelScope
    ) -> None:
        async for line in child.error_lines():
            text = line[:_STDERR_LINE].decode("utf-8", "replace")
            stderr_lines.append(text)
            self._reporter.report(StderrLine(text))
            for event in reader.read_stderr(text):
                self._reporter.report(event)
            scope.deadline = self._deadline(reader, scope.deadline)

    def _note_names(self, reader: TurnReader) -> None:
        if reader.session_id != self._announced and is_session_id(reader.session_id):
            self._session_id = self._announced = reader.session_id
            self._reporter.report(SessionOpened(reader.session_id))
        if reader.model != self._model and reader.model:
            self._model = reader.model
            self._reporter.report(ModelNamed(reader.model))
