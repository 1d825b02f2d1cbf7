"""Any command as an agent: each turn is one process with the prompt on its standard input.

The command runs as `sh -c COMMAND` in the workspace. A script usually lies beside the workflow file, not in the
workspace: if the first word of the command starts with `./` or `../` and names a file there but nothing in the
workspace, its absolute path takes its place. For everything else there is `SORTIE_WORKFLOW_DIR`.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections import deque
from pathlib import Path

import anyio

from ..errors import AgentError
from ..process.child import Child, Exit, start
from .port import AgentSettings, Reporter, Said, SessionOpened, SessionOrder

DEFAULT_COMMAND = "./agent.sh"

_RELATIVE_PROGRAM = re.compile(r"\s*(\.{1,2}/[^\s;&|<>()$`\"'\\*?\[]+)(?=[\s;&|<>()]|$)")
_TAIL_LINES = 5
_TAIL_CHARACTERS = 500


class CommandAgent:
    def __init__(self, command: str, base: Path) -> None:
        self._command = command
        self._base = base.absolute()

    @classmethod
    def from_settings(cls, settings: AgentSettings) -> CommandAgent:
        return cls(settings.command or DEFAULT_COMMAND, settings.base)

    @classmethod
    def check(cls, settings: AgentSettings) -> list[tuple[str, str]]:
        problems = [(f"command.{key}", "The command agent has no such option.") for key in settings.options]
        if settings.command and not settings.command.strip():
            problems.append(("agent.command", "The command is blank; name a program or a script."))
        if "\0" in settings.command:
            problems.append(("agent.command", "The command holds a NUL character, which no shell accepts."))
        return problems

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
        child = self._child = await start(
            ["sh", "-c", self._command],
            cwd_fd=self._order.workspace_fd,
            env={**self._environment, "SORTIE_TURN": str(number)},
            run_id=self._order.run_id,
            workspace=self._order.workspace,
        )
        await self._reporter.process_started(child.identity)
        tail: deque[str] = deque(maxlen=_TAIL_LINES)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.feed, prompt.encode("utf-8", "replace"))
            async for line in child.lines():
                text = line.decode("utf-8", "replace")
                tail.append(text)
                self._reporter.report(Said(text))
        await child.wait()
        exit = await child.end()
        self._child = None
        if exit.code != 0:
            raise _failure(exit, "\n".join(tail)[-_TAIL_CHARACTERS:].strip())

    async def close(self) -> None:
        if self._child is not None:
            await self._child.end()
            self._child = None


def locate(command: str, base: Path, workspace: Path) -> str:
    """The command with a script beside the workflow file in its first word made absolute; see the module."""
    word = _RELATIVE_PROGRAM.match(command)
    if word is None:
        return command
    beside = base / word[1]
    if not beside.is_file() or (workspace / word[1]).exists():
        return command
    return shlex.quote(str(beside)) + command[word.end() :]


def _failure(exit: Exit, tail: str) -> AgentError:
    if exit.code == 127:
        return AgentError(
            AgentError.NOT_FOUND,
            f"Command not found (exit code 127): {tail}",
            fix="Install the program or correct agent.command.",
        )
    if exit.code == 126:
        return AgentError(
            AgentError.NOT_EXECUTABLE,
            f"Command not executable (exit code 126): {tail}",
            fix="Make the script executable: chmod +x.",
        )
    how = f"ended with exit code {exit.code}" if exit.signal is None else f"was ended by {_name(exit.signal)}"
    return AgentError(AgentError.TURN_FAILED, f"The agent {how}: {tail or 'it printed nothing'}")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
