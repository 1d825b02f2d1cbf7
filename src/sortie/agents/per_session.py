"""Agents whose process lives for a session: one process, a handshake, then turns as requests to it.

A conversation that the agent will not resume is begun anew. The process is ended with everything it started, also
when the handshake fails half-way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import Struct

from ..errors import AgentError
from ..process.child import Child, start
from .agent import (
    AgentEvent,
    ErrorReported,
    Heartbeat,
    Reporter,
    SessionOpened,
    SessionOrder,
    StderrLine,
    TurnEnded,
)
from .cli import CliAgent
from .error_kinds import ended_itself, fault_of_exit
from .first_alone import FirstAlone
from .jsonrpc import Gone, Message, Peer, RpcError
from .program import shell_command
from .turn_reader import remarks

_INTERRUPT_PATIENCE = 2.0
# Between the end of its output and its own.
_LAST_BREATH = 1.0

Options = TypeVar("Options", bound=Struct)


class Conversation(ABC):
    """One session in the agent's own protocol. It is the listener of its peer; `report` tells its run.

    Its methods may let `RpcError`, `Gone` and `TimeoutError` through: the session knows what they mean.
    """

    versioned: bool = True

    def __init__(self, order: SessionOrder, report: Callable[[AgentEvent], None], read_timeout: float) -> None:
        self.order = order
        self.report = report
        self.read_timeout = read_timeout

    @abstractmethod
    async def greet(self, peer: Peer) -> None:
        """Introduce ourselves, log in where the protocol asks for it."""

    @abstractmethod
    async def fresh(self, peer: Peer) -> str:
        """Begin a conversation; its name."""

    @abstractmethod
    async def resume(self, peer: Peer, session_id: str) -> None:
        """Go on with one; raises `AgentError` of kind SESSION or `RpcError` where the agent will not."""

    @abstractmethod
    async def turn(self, peer: Peer, prompt: str, number: int) -> None:
        """One turn to its end; raises `AgentError` where it did not complete."""

    @abstractmethod
    async def cancel(self, peer: Peer) -> None:
        """Ask the turn under way to end, and wait until the agent says that it has."""

    @abstractmethod
    def heard(self, message: Message) -> None: ...

    @abstractmethod
    def asked(self, message: Message) -> Any: ...

    def failure(self, error: RpcError) -> AgentError:
        """What an error answer means."""
        return AgentError(AgentError.TURN_FAILED, f"The agent answered with an error: {error.message}")

    def explained(self, said: str) -> AgentError | None:  # noqa: ARG002 - most have nothing to add
        """What it means that the process ended by itself with these words on standard error."""
        return None

    def stray(self, line: bytes) -> None:
        for remark in remarks(line[:4_000].decode("utf-8", "replace")):
            self.report(remark)
        self.report(Heartbeat())

    def muttered(self, text: str) -> None:
        self.report(StderrLine(text))


class SessionwiseAgent(CliAgent[Options]):
    def __init__(self, command: str, options: Options, base: Path, read_timeout: float) -> None:
        super().__init__(command, options, base, read_timeout)
        self._first = FirstAlone()

    @abstractmethod
    def conversation(self, order: SessionOrder, report: Callable[[AgentEvent], None]) -> Conversation: ...

    def arguments(self, order: SessionOrder) -> list[str]:  # noqa: ARG002 - most need nothing
        """What follows the command; nothing by default."""
        return []

    async def open(self, order: SessionOrder, reporter: Reporter) -> LivingSession:
        async with self._first.gate():
            child = await start(
                shell_command(self.located(order), self.arguments(order)),
                cwd_fd=order.workspace_fd,
                env=self.environment(order),
                run_id=order.run_id,
                workspace=order.workspace,
                separate_stderr=True,
            )
            async with _ended_on_failure(child):
                await reporter.process_started(child.identity)
                session = LivingSession(child, self.conversation(order, reporter.report), reporter)
                await session.greet()
        async with _ended_on_failure(child):
            await session.begin(order.resume)
        return session


@asynccontextmanager
async def _ended_on_failure(child: Child) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        with anyio.CancelScope(shield=True):
            await child.end()
        raise


class LivingSession:
    def __init__(self, child: Child, conversation: Conversation, reporter: Reporter) -> None:
        self._child = child
        self._conversation = conversation
        self._reporter = reporter
        self._peer = Peer(child, conversation, versioned=conversation.versioned)
        self._in_turn = False

    async def greet(self) -> None:
        async with self._understood():
            await self._conversation.greet(self._peer)

    async def begin(self, resume: str) -> None:
        """Resume the conversation, or begin one."""
        async with self._understood():
            resumed = bool(resume) and await self._resumed(resume)
            session_id = resume if resumed else await self._conversation.fresh(self._peer)
        self._reporter.report(SessionOpened(session_id))

    async def turn(self, prompt: str, number: int) -> None:
        self._in_turn = True
        try:
            async with self._understood():
                await self._conversation.turn(self._peer, prompt, number)
        except AgentError as error:
            self._in_turn = False
            self._reporter.report(TurnEnded(error.kind))
            raise
        self._in_turn = False
        self._reporter.report(TurnEnded("completed"))

    async def interrupt(self) -> None:
        if not self._in_turn:
            return
        with anyio.move_on_after(_INTERRUPT_PATIENCE):
            try:
                await self._conversation.cancel(self._peer)
            except (RpcError, Gone, TimeoutError):
                pass  # it is ended next, whatever it says
        self._in_turn = False

    async def close(self) -> None:
        await self._child.end()
        await self._peer.close()

    @asynccontextmanager
    async def _understood(self) -> AsyncIterator[None]:
        """Turns the ways in which an exchange fails into `AgentError`."""
        try:
            yield
        except RpcError as error:
            raise self._conversation.failure(error) from error
        except Gone as error:
            raise await self._fault_of_exit() from error
        except TimeoutError as error:
            raise AgentError(
                AgentError.SILENT,
                "The agent did not answer in time (agent.read_timeout_ms).",
                fix="Raise agent.read_timeout_ms if it only needs longer to start.",
            ) from error

    async def _fault_of_exit(self) -> AgentError:
        with anyio.move_on_after(_LAST_BREATH):
            await self._child.wait()
        exit = await self._child.end()
        said = "\n".join(self._peer.last_words)
        known = None
        if ended_itself(exit.code, exit.signal, by_us=exit.ended_by_us):
            known = self._conversation.explained(said)
        return known or fault_of_exit(exit.code, exit.signal, said, by_us=exit.ended_by_us)

    async def _resumed(self, session_id: str) -> bool:
        try:
            await self._conversation.resume(self._peer, session_id)
        except RpcError as error:
            refusal = error.message
        except AgentError as error:
            if error.kind != AgentError.SESSION:
                raise
            refusal = error.message
        else:
            return True
        self._reporter.report(
            ErrorReported(f"The conversation {session_id} cannot be resumed ({refusal}). A fresh one begins.")
        )
        return False
