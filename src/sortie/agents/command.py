"""Any command as an agent: each turn is one process with the prompt on its standard input.

What it says is its standard output; standard error is for the log, because everybody it starts writes there too,
our tool server included. The command runs as `sh -c COMMAND` in the workspace. A script beside the workflow file is
found by `./name`; for everything else that lies there, there is `SORTIE_WORKFLOW_DIR`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import anyio
from msgspec import Struct

from ..core.model import Finding
from ..errors import AgentError
from ..protocol.session_files import SERVER
from .agent import AgentSettings, Reporter, Said, SessionOpened, SessionOrder, StderrLine, TurnFinished
from .command_line import check_command, first_word, locate, missing_program, not_found, start_command
from .error_kinds import classify_exit, how_it_ended
from .options import check_options
from .program import run_command
from .script_check import check_argument, check_script, check_syntax

if TYPE_CHECKING:
    from ..process.child import Child, Exit

DEFAULT_COMMAND = "./agent.sh"

_TAIL_LINES = 5
_TAIL_CHARACTERS = 500


class CommandOptions(Struct, frozen=True):
    """None: what a command wants to know stands in the command."""


class CommandAgent:
    variables: ClassVar[tuple[str, ...]] = ()
    needs_login: ClassVar[bool] = False

    def __init__(self, command: str, base: Path) -> None:
        self._command = command
        self._base = base.absolute()

    @classmethod
    def from_settings(cls, settings: AgentSettings) -> CommandAgent:
        return cls(settings.command or DEFAULT_COMMAND, settings.base)

    @classmethod
    def check(cls, settings: AgentSettings) -> list[tuple[str, str]]:
        return [*check_options("command", CommandOptions, settings.options), *check_command(settings.command)]

    def missing(self, environment: Mapping[str, str]) -> AgentError | None:
        return missing_program(self._command, self._base, environment)

    async def examine(self, environment: Mapping[str, str]) -> list[Finding]:
        """Whether a shell understands the command and finds its first word, and whether that can start.

        Where it is an interpreter, the same of its script.
        What comes after is the agent's own business.
        """
        if problem := await check_syntax(self._command, self._base, environment):
            return [problem]
        word = first_word(locate(self._command, self._base, self._base))
        if not word:
            return [Finding("WARN", "program", f"cannot tell which program `{self._command}` starts.")]
        answer = await run_command(["sh", "-c", 'command -v -- "$1"', "sh", word], self._base, environment)
        found = answer.stdout.strip() if answer and answer.code == 0 else ""
        # What is named by its path is looked at even where the shell does not find it: that tells why.
        path = word if "/" in word else found
        if "/" in path:
            problem = await check_script(self._base / path, environment)
            if problem is not None:
                return [problem]
        if not found:
            why = self.missing(environment) or not_found(word)
            return [Finding("FAIL", "program", why.message, why.fix)]
        problem = await check_argument(self._command, word, self._base, environment)
        return [problem or Finding("PASS", "program", found)]

    async def open(self, order: SessionOrder, reporter: Reporter) -> CommandSession:
        command = locate(self._command, self._base, order.workspace)
        session_id = order.resume or order.run_id
        reporter.report(SessionOpened(session_id))
        environment = {
            **order.environment,
            "SORTIE_ISSUE_ID": order.issue_id,
            "SORTIE_ISSUE_IDENTIFIER": order.identifier,
            "SORTIE_WORKSPACE": str(order.workspace),
            "SORTIE_WORKFLOW_DIR": str(self._base),
            "SORTIE_ATTEMPT": str(order.attempt),
            "SORTIE_SESSION_ID": session_id,
        }
        return CommandSession(command, order, environment, reporter)


class CommandSession:
    def __init__(self, command: str, order: SessionOrder, environment: dict[str, str], reporter: Reporter) -> None:
        self._command = command
        self._order = order
        self._environment = environment
        self._reporter = reporter
        self._child: Child | None = None

    async def turn(self, prompt: str, number: int) -> None:
        child = self._child = await start_command(
            self._command, (), self._order, {**self._environment, "SORTIE_TURN": str(number)}
        )
        await self._reporter.process_started(child.identity)
        said: deque[str] = deque(maxlen=_TAIL_LINES)
        stderr_lines: deque[str] = deque(maxlen=_TAIL_LINES)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.feed, prompt.encode("utf-8", "replace"))
            del prompt  # many turns may go on at once, each for hours
            tasks.start_soon(self._report_lines, child.error_lines(), StderrLine, stderr_lines)
            await self._report_lines(child.lines(), Said, said)
        await child.wait()
        exit = await child.end()
        self._child = None
        if exit.code != 0:
            error = _failure(exit, "\n".join([*said, *stderr_lines])[-_TAIL_CHARACTERS:].strip())
            self._reporter.report(TurnFinished(error.kind))
            raise error
        self._reporter.report(TurnFinished("completed"))

    async def _report_lines(
        self, lines: AsyncIterator[bytes], kind: type[Said] | type[StderrLine], tail: deque[str]
    ) -> None:
        async for line in lines:
            text = line.decode("utf-8", "replace")
            if not text.startswith(f"{SERVER}: "):
                tail.append(text)
            self._reporter.report(kind(text))

    async def interrupt(self) -> None:
        """A command knows no gentle way to stop: it is ended by `close`."""

    async def close(self) -> None:
        if self._child is not None:
            await self._child.end()
            self._child = None


def _failure(exit: Exit, tail: str) -> AgentError:
    if exit.code in (126, 127):
        return classify_exit(exit.code, None, tail)
    how = how_it_ended(exit.code, exit.signal)
    return AgentError(AgentError.TURN_FAILED, f"The agent {how}: {tail or 'it printed nothing'}")
