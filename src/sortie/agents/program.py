"""The program behind an agent: how it is got, which versions of it were tried, and what short commands answer."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio
from msgspec import Struct

from ..core.model import Finding
from .command_line import locate, shell_command
from .turn_reader import shorten

_VERSION = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9})+")
_SEARCHED = 1_000
_TIMEOUT = 30.0


class Program(Struct, frozen=True, kw_only=True):
    """`tested` is the oldest and the newest version that the tests were run with."""

    name: str
    command: str
    install: str
    tested: tuple[str, str]

    async def examine(self, command: str, base: Path, environment: Mapping[str, str]) -> list[Finding]:
        """Whether it starts, and which version it is."""
        answer = await run_command(shell_command(locate(command, base, base), ["--version"]), base, environment)
        if answer is None:
            fix = "Run that by hand and see what it waits for."
            return [Finding("FAIL", "program", f"`{command} --version` gave no answer.", fix)]
        if answer.code != 0:
            fix = f"Install it ({self.install}), or set agent.command."
            said = shorten(answer.stderr or answer.stdout)
            return [Finding("FAIL", "program", f"`{command}` does not run: {said or 'no output'}.", fix)]
        said = answer.stdout.strip() or answer.stderr.strip()
        return [Finding("PASS", "program", command), self._version_finding(said)]

    def _version_finding(self, said: str) -> Finding:
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
        from ..process.child import start  # brings asyncio, for those alone who run it

        child = await start(
            argv, cwd_fd=here, env=environment, run_id=uuid.uuid4().hex, workspace=directory, separate_stderr=True
        )
    finally:
        os.close(here)
    printed: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    try:
        with anyio.fail_after(_TIMEOUT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(child.feed, stdin)
                tasks.start_soon(_collect, child.lines(), printed["stdout"])
                tasks.start_soon(_collect, child.error_lines(), printed["stderr"])
            exit = await child.wait()
    except TimeoutError:
        return None
    finally:
        with anyio.CancelScope(shield=True):
            await child.end(grace=1.0)
    stdout, stderr = (b"\n".join(lines).decode("utf-8", "replace") for lines in printed.values())
    return CommandOutput(exit.code, stdout, stderr)


async def _collect(lines: AsyncIterator[bytes], into: list[bytes]) -> None:
    async for line in lines:
        into.append(line)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
