"""Agents whose process lives for a session: one process, a handshake, then turns as requests to it.

A conversation that the agent will not resume is begun anew. The process is ended with everything it started, also
when the handshake fails half-way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec import Raw, Struct

from ..errors import AgentError
from ..process.child import Child
from .agent import (
    AgentEvent,
    ErrorReported,
    Heartbeat,
    Reporter,
    SessionOpened,
    SessionOrder,
    StderrLine,
    TurnFinished,
)
from .cli_agent import CliAgent
from .command_line import start_command
from .error_kinds import classify_exit, ended_by_itself
from .jsonrpc import Message, Peer, PeerGone, ResponseError
from .turn_reader import decode, program_lines

_INTERRUPT_TIMEOUT = 2.0
# Between the end of its output and its own.
_EXIT_WAIT = 1.0

Options = TypeVar("Options", bound=Struct)
A = TypeVar("A", bound=Struct)


class RpcConversation(ABC):
    """One session in the agent's own protocol. It is the listener of its peer; `report` tells its run.

    Its methods may let `ResponseError`, `PeerGone` and `TimeoutError` through: the session knows what they mean.
    """

    versioned: bool = True

    def __init__(self, order: SessionOrder, report: Callable[[AgentEvent], None], read_timeout: float) -> None:
        self.order = order
        self.report = report
        self.read_timeout = read_timeout

    async def ask(self, peer: Peer, method: str, params: Any, model: type[A]) -> A:
        """The answer to a request, as far as we read it."""
        result = await peer.request(method, params, self.read_timeout)
        try:
            return decode(Raw(b"{}") if result == Raw(b"null") else result, model)
        except msgspec.DecodeError as error:
            raise AgentError(
                AgentError.TURN_FAILED, f"The answer to {method} is not understood: {error}"
            ) from error

    @abstractmethod
    async def handshake(self, peer: Peer) -> None:
        """Introduce ourselves, log in where the protocol asks for it."""

    @abstractmethod
    async def start_conversation(self, peer: Peer) -> str:
        """Begin a conversation; its name."""

    @abstractmethod
    async def resume(self, peer: Peer, session_id: str) -> None:
        """Go on with one; raises `AgentError` of kind SESSION or `ResponseError` where the agent will not."""

    @abstractmethod
    async def turn(self, peer: Peer, prompt: str) -> None:
        """One turn to its end; raises `AgentError` where it did not complete."""

    @abstractmethod
    async def cancel(self, peer: Peer) -> None:
        """Ask the turn under way to end, and wait until the agent says that it has."""

    @abstractmethod
    def on_notification(self, message: Message) -> None: ...

    @abstractmethod
    def on_request(self, message: Message) -> Any: ...

    def failure(self, error: ResponseError) -> AgentError:
        """What an error answer means."""
        return AgentError(AgentError.TURN_FAILED, f"The agent answered with an error: {error.message}")

    def explain_exit(self, said: str) -> AgentError | None:  # noqa: ARG002 - most have nothing to add
        """What it means that the process ended by itself with these words on standard error."""
        return None

    def on_unreadable(self, line: bytes) -> None:
        for remark in program_lines(line[:4_000].decode("utf-8", "replace")):
            self.report(remark)
        self.report(Heartbeat())

    def on_stderr(self, text: str) -> None:
        self.report(StderrLine(text))


class PerSessionAgent(CliAgent[Options]):
    @abstractmethod
    def conversation(self, order: SessionOrder, report: Callable[[AgentEvent], None]) -> RpcConversation: ...

    def arguments(self, order: SessionOrder) -> list[str]:  # noqa: ARG002 - most need nothing
        """What follows the command; nothing by default."""
        return []

    async def open(self, order: SessionOrder, reporter: Reporter) -> LongLivedSession:
        async with self.first_start.gate():
            child = await start_command(self.located(order), self.arguments(order), order, self.environment(order))
            async with _ended_on_failure(child):
                await reporter.process_started(child.identity)
                session = LongLivedSession(child, self.conversation(order, reporter.report))
                await session.handshake()
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


class LongLivedSession:
    def __init__(self, child: Child, conversation: RpcConversation) -> None:
        self._child = child
        self._conversation = conversation
        self._report = conversation.report
        self._peer = Peer(child, conversation, versioned=conversation.versioned)
        self._in_turn = False

    async def handshake(self) -> None:
        async with self._errors_classified():
            await self._conversation.handshake(self._peer)

    async def begin(self, resume: str) -> None:
        """Resume the conversation, or begin one."""
        async with self._errors_classified():
            resumed = bool(resume) and await self._resumed(resume)
            session_id = resume if resumed else await self._conversation.start_conversation(self._peer)
        self._report(SessionOpened(session_id))

    async def turn(self, prompt: str, number: int) -> None:  # noqa: ARG002 - all turns are alike
        self._in_turn = True
        try:
            async with self._errors_classified():
                await self._conversation.turn(self._peer, prompt)
        except AgentError as error:
            self._in_turn = False
            self._report(TurnFinished(error.kind))
            raise
        self._in_turn = False
        self._report(TurnFinished("completed"))

    async def interrupt(self) -> None:
        if not self._in_turn:
            return
        with anyio.move_on_after(_INTERRUPT_TIMEOUT):
            try:
                await self._conversation.cancel(self._peer)
            except (ResponseError, PeerGone, TimeoutError):
                pass  # it is ended next, whatever it says
        self._in_turn = False

    async def close(self) -> None:
        await self._child.end()
        await self._peer.close()

    @asynccontextmanager
    async def _errors_classified(self) -> AsyncIterator[None]:
        """Turns the ways in which an exchange fails into `AgentError`."""
        try:
            yield
        except ResponseError as error:
            raise self._conversation.failure(error) from error
        except PeerGone as error:
            raise await self._fault_of_exit() from error
        except TimeoutError as error:
            raise AgentError(
                AgentError.SILENT,
                "The agent did not answer in time (agent.read_timeout_ms).",
                fix="Raise agent.read_timeout_ms if it only needs longer to start.",
            ) from error

    async def _fault_of_exit(self) -> AgentError:
        with anyio.move_on_after(_EXIT_WAIT):
            await self._child.wait()
        exit = await self._child.end()
        said = "\n".join(self._peer.stderr_tail)
        known = None
        if ended_by_itself(exit.code, exit.signal, by_us=exit.ended_by_us):
            known = self._conversation.explain_exit(said)
        return known or classify_exit(exit.code, exit.signal, said, by_us=exit.ended_by_us)

    async def _resumed(self, session_id: str) -> bool:
        try:
            await self._conversation.resume(self._peer, session_id)
        except ResponseError as error:
            refusal = error.message
        except AgentError as error:
            if error.kind != AgentError.SESSION:
                raise
            refusal = error.message
        else:
            return True
        self._report(
            ErrorReported(f"The conversation {session_id} cannot be resumed ({refusal}). A fresh one begins.")
        )
        return False
