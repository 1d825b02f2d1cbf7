"""The program behind an agent: how it is started, how it is got, and which versions of it were tried.

Commands go through `sh -c`, so `agent.command` may hold arguments, quotes and variables. A script usually lies
beside the workflow file: a first word that starts with `./` or `../` and names a file there, but nothing in the
workspace, is made absolute.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio
from msgspec import Struct

from ..errors import AgentError
from ..process.child import start
from .agent import Finding
from .turn_reader import shorten

_RELATIVE_PROGRAM = re.compile(r"\s*(\.{1,2}/[^\s;&|<>()$`\"'\\*?\[]+)(?=[\s;&|<>()]|$)")
_VERSION = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9})+")
_SEARCHED = 1_000
_PATIENCE = 30.0

# What a shell knows without looking for a program of that name.
_SHELL_WORD = re.compile(
    r"alias|break|case|cd|command|continue|do|echo|eval|exec|exit|export|false|for|getopts|hash|if|kill|local|printf|"
    r"pwd|read|readonly|return|set|shift|source|test|time|times|trap|true|type|ulimit|umask|unset|until|wait|while|[.:]"
)


class Program(Struct, frozen=True, kw_only=True):
    """`tested` is the oldest and the newest version that the tests were run with."""

    name: str
    command: str
    install: str
    tested: tuple[str, str]
    version_arguments: tuple[str, ...] = ("--version",)

    async def examine(self, command: str, base: Path, environment: Mapping[str, str]) -> list[Finding]:
        """Whether it starts, and which version it is."""
        answer = await run_command(
            shell_command(locate(command, base, base), self.version_arguments), base, environment
        )
        if answer is None:
            fix = "Run that by hand and see what it waits for."
            return [Finding("FAIL", "program", f"`{command} --version` gave no answer.", fix)]
        if answer.code != 0:
            fix = f"Install it ({self.install}), or set agent.command."
            said = shorten(answer.stderr or answer.stdout)
            return [Finding("FAIL", "program", f"`{command}` does not run: {said or 'no output'}.", fix)]
        said = answer.stdout.strip() or answer.stderr.strip()
        return [Finding("PASS", "program", command), self._judge(said)]

    def _judge(self, said: str) -> Finding:
        found = _VERSION.search(said[:_SEARCHED])
        if found is None:
            return Finding("WARN", "version", f"`{said[:80]}` names no version; {self._range()}.")
        version = found[0]
        oldest, newest = self.tested
        if _parts(oldest) <= _parts(version) <= _parts(newest):
            return Finding("PASS", "version", f"{version}; {self._range()}")
        fix = f"It may well work; if it does not, install {newest}: {self.install}@{newest}"
        return Finding("WARN", "version", f"{version} was not tested; {self._range()}.", fix)

    def _range(self) -> str:
        oldest, newest = self.tested
        return f"tested with {oldest}" if oldest == newest else f"tested with {oldest} to {newest}"


class CommandOutput(Struct, frozen=True):
    code: int | None
    stdout: str
    stderr: str


async def run_command(
    argv: list[str],
    directory: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    *,
    cwd_fd: int | None = None,
) -> CommandOutput | None:
    """What a short command prints; None where it does not end in time. Nothing of it stays alive.

    It runs in the directory, or in the one that is open as `cwd_fd`.
    """
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY) if cwd_fd is None else os.dup(cwd_fd)
    try:
        child = await start(
            argv, cwd_fd=here, env=environment, run_id=uuid.uuid4().hex, workspace=directory, separate_stderr=True
        )
    finally:
        os.close(here)
    spoken: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    try:
        with anyio.fail_after(_PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(child.feed, stdin)
                tasks.start_soon(_collect, child.lines(), spoken["stdout"])
                tasks.start_soon(_collect, child.error_lines(), spoken["stderr"])
            exit = await child.wait()
    except TimeoutError:
        return None
    finally:
        with anyio.CancelScope(shield=True):
            await child.end(grace=1.0)
    stdout, stderr = (b"\n".join(lines).decode("utf-8", "replace") for lines in spoken.values())
    return CommandOutput(exit.code, stdout, stderr)


async def _collect(lines: AsyncIterator[bytes], into: list[bytes]) -> None:
    async for line in lines:
        into.append(line)


def shell_command(command: str, arguments: tuple[str, ...] | list[str]) -> list[str]:
    """The command by way of a shell, with these arguments after its own."""
    return ["sh", "-c", f'{command} "$@"', "sh", *arguments]


def locate(command: str, base: Path, workspace: Path) -> str:
    """The command with a script beside the workflow file in its first word made absolute; see the module."""
    word = _RELATIVE_PROGRAM.match(command)
    if word is None:
        return command
    beside = base / word[1]
    try:
        if not beside.is_file() or (workspace / word[1]).exists():
            return command
    except OSError:  # a place that nobody can look at; the shell will say the same
        return command
    return shlex.quote(str(beside)) + command[word.end() :]


def first_word(command: str) -> str:
    """The first word that is neither an assignment nor a prefix: the program, in all but odd commands."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return next((word for word in words if "=" not in word and word not in ("exec", "env")), "")


def missing_program(command: str, base: Path, environment: Mapping[str, str]) -> AgentError | None:
    """Why the command cannot start, seen without starting anything; None where it can, or where nobody can tell.

    A script that is named relative to the workspace, or a word that only a shell understands, shows when it runs.
    """
    word = first_word(command)
    if not re.fullmatch(r"[\w./+@-]+", word) or _SHELL_WORD.fullmatch(word) or word.startswith("-"):
        return None
    if "/" in word:
        return _unusable(base / word, word)
    places = environment.get("PATH", os.defpath)
    if shutil.which(word, path=places) or not all(map(os.path.isabs, places.split(os.pathsep))):
        return None
    return not_found(word)


def _unusable(path: Path, word: str) -> AgentError | None:
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return not_found(word) if path == Path(word) else None
    except OSError as error:
        kind = AgentError.NOT_EXECUTABLE if isinstance(error, PermissionError) else AgentError.NOT_FOUND
        fix = "Correct agent.command, or let this user into the directories above it."
        return AgentError(kind, f"{shorten(word, 80)} cannot be reached: {error.strerror}.", fix=fix)
    if is_file and os.access(path, os.X_OK):
        return None
    fix = f"Run: chmod +x {shlex.quote(str(path))}" if is_file else "Correct agent.command."
    return AgentError(AgentError.NOT_EXECUTABLE, f"{word} cannot be executed.", fix=fix)


def not_found(word: str) -> AgentError:
    fix = "Install it, or correct agent.command."
    return AgentError(AgentError.NOT_FOUND, f"The program {word} was not found.", fix=fix)


def check_command(command: str) -> list[tuple[str, str]]:
    if command and not command.strip():
        return [("agent.command", "The command is blank; name a program or a script.")]
    if "\0" in command:
        return [("agent.command", "The command holds a NUL character, which no shell accepts.")]
    return []


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
