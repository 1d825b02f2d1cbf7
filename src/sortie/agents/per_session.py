"""Agents whose process lives for a session: one process, a handshake, then turns as requests to it.

A conversation that the agent will not resume is begun anew. The process is ended with everything it started, also
when the handshake fails half-way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import anyio
import msgspec
from msgspec import Raw, Struct

from ..errors import AgentError
from .agent import AgentEvent, ErrorReported, Reporter, SessionOpened, SessionOrder, StderrLine, TurnFinished
from .cli_agent import CliAgent
from .command_line import start_command
from .error_kinds import classify_exit, ended_by_itself
from .jsonrpc import Listener, Peer, PeerGone, ResponseError
from .turn_reader import decode, unreadable_line

if TYPE_CHECKING:
    from ..process.child import Child

_INTERRUPT_TIMEOUT = 2.0
# Between the end of its output and its own.
_EXIT_WAIT = 1.0

Options = TypeVar("Options", bound=Struct)
A = TypeVar("A", bound=Struct)


class PerSessionAgent(CliAgent[Options]):
    session_type: ClassVar[type[RpcSession]]

    def arguments(self, order: SessionOrder) -> list[str]:  # noqa: ARG002 - most need nothing
        """What follows the command; nothing by default."""
        return []

    async def start(self, order: SessionOrder) -> Child:
        return await start_command(self.located(order), self.arguments(order), order, self.environment(order))

    async def open(self, order: SessionOrder, reporter: Reporter) -> RpcSession:
        async with self.first_start.gate():
            child = await self.start(order)
            async with _ended_on_failure(child):
                await reporter.process_started(child.identity)
                session = self.session_type(self, order, child, reporter.report)
                await session.shake_hands()
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


class RpcSession(Listener):
    """One process, spoken to in the agent's own protocol; `report` tells its run.

    What a subclass says how to do may let `ResponseError`, `PeerGone` and `TimeoutError` through: here it is known
    what they mean.
    """

    versioned: ClassVar[bool] = True

    def __init__(
        self, agent: PerSessionAgent[Any], order: SessionOrder, child: Child, report: Callable[[AgentEvent], None]
    ) -> None:
        self.order = order
        self.report = report
        self.read_timeout = agent.read_timeout
        self.peer = Peer(child, self, versioned=self.versioned)
        self._child = child
        self._in_turn = False

    @abstractmethod
    async def introduce(self) -> None:
        """Say who we are, log in where the protocol asks for it."""

    @abstractmethod
    async def start_conversation(self) -> str:
        """Begin a conversation; its name."""

    @abstractmethod
    async def resume(self, session_id: str) -> None:
        """Go on with one; raises `AgentError` of kind SESSION or `ResponseError` where the agent will not."""

    @abstractmethod
    async def run_turn(self, prompt: str) -> None:
        """One turn to its end; raises `AgentError` where it did not complete."""

    @abstractmethod
    async def cancel(self) -> None:
        """Ask the turn under way to end, and wait until the agent says that it has."""

    def failure(self, error: ResponseError) -> AgentError:
        """What an error answer means."""
        return AgentError(AgentError.TURN_FAILED, f"The agent answered with an error: {error.message}")

    def explain_exit(self, said: str) -> AgentError | None:  # noqa: ARG002 - most have nothing to add
        """What it means that the process ended by itself with these words on standard error."""
        return None

    def on_unreadable(self, line: bytes) -> None:
        for event in unreadable_line(line):
            self.report(event)

    def on_stderr(self, text: str) -> None:
        self.report(StderrLine(text))

    async def ask(self, method: str, params: Any, model: type[A]) -> A:
        """The answer to a request, as far as we read it."""
        result = await self.peer.request(method, params, self.read_timeout)
        try:
            return decode(Raw(b"{}") if result == Raw(b"null") else result, model)
        except msgspec.DecodeError as error:
            raise AgentError(
                AgentError.TURN_FAILED, f"The answer to {method} is not understood: {error}"
            ) from error

    async def shake_hands(self) -> None:
        async with self._errors_classified():
            await self.introduce()

    async def begin(self, resume: str) -> None:
        """Resume the conversation, or begin one."""
        async with self._errors_classified():
            resumed = bool(resume) and await self._resumed(resume)
            session_id = resume if resumed else await self.start_conversation()
        self.report(SessionOpened(session_id))

    async def turn(self, prompt: str, number: int) -> None:  # noqa: ARG002 - all turns are alike
        self._in_turn = True
        try:
            async with self._errors_classified():
                await self.run_turn(prompt.encode("utf-8", "replace").decode())
        except AgentError as error:
            self._in_turn = False
            self.report(TurnFinished(error.kind))
            raise
        self._in_turn = False
        self.report(TurnFinished("completed"))

    async def interrupt(self) -> None:
        if not self._in_turn:
            return
        with anyio.move_on_after(_INTERRUPT_TIMEOUT):
            try:
                await self.cancel()
            except (ResponseError, PeerGone, TimeoutError):
                pass  # it is ended next, whatever it says
        self._in_turn = False

    async def close(self) -> None:
        await self._child.end()
        await self.peer.close()

    @asynccontextmanager
    async def _errors_classified(self) -> AsyncIterator[None]:
        """Turns the ways in which an exchange fails into `AgentError`."""
        try:
            yield
        except ResponseError as error:
            raise self.failure(error) from error
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
        said = "\n".join(self.peer.stderr_tail)
        known = None
        if ended_by_itself(exit.code, exit.signal, by_us=exit.ended_by_us):
            known = self.explain_exit(said)
        return known or classify_exit(exit.code, exit.signal, said, by_us=exit.ended_by_us)

    async def _resumed(self, session_id: str) -> bool:
        try:
            await self.resume(session_id)
        except ResponseError as error:
            refusal = error.message
        except AgentError as error:
            if error.kind != AgentError.SESSION:
                raise
            refusal = error.message
        else:
            return True
        self.report(
            ErrorReported(f"The conversation {session_id} cannot be resumed ({refusal}). A fresh one begins.")
        )
        return False
