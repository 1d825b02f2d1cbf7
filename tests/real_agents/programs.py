"""The real agent programs in exactly these versions; `python -m tests.real_agents.programs [NAME...]` installs.

Every one works without the install scripts of its packages. Those of claude-code and opencode-ai only put the
native program of the platform in the place of `.bin/...`; the table names that native program itself. So it does
for copilot, whose `.bin/copilot` dies of a signal and leaves the native one running.
"""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path

from msgspec import Struct

from tests import npm


class Program(Struct, frozen=True):
    package: str
    version: str
    path: str
    beside: tuple[str, ...] = ()
    """Packages that it would otherwise choose from a range of versions."""


PROGRAMS = {
    "claude-code": Program("@anthropic-ai/claude-code", "2.1.325", "@anthropic-ai/claude-code-linux-*/claude"),
    "codex": Program("@openai/codex", "0.166.0", ".bin/codex"),
    # On x64 the last by name is `baseline`, which runs on processors without AVX2 too.
    "opencode": Program("opencode-ai", "1.18.33", "opencode-linux-*/bin/opencode"),
    "copilot": Program("@github/copilot", "1.0.102", "@github/copilot-linux*/copilot"),
    "gemini": Program("@google/gemini-cli", "0.61.0", ".bin/gemini"),
    # It brings a Claude Code of its own, an older one, and runs another where CLAUDE_CODE_EXECUTABLE names it.
    "claude-agent-acp": Program("@agentclientprotocol/claude-agent-acp", "0.99.1", ".bin/claude-agent-acp"),
    "codex-acp": Program("@agentclientprotocol/codex-acp", "2.6.0", ".bin/codex-acp", ("@openai/codex@0.166.0",)),
}


def installed(name: str) -> Path:
    """The program, installed first where it is not there yet; a failure is remembered, not tried again."""
    result = _attempt(name)
    if isinstance(result, npm.NotInstalled):
        raise result
    return result


def need(name: str) -> Path:
    """The program for a test, whose module is marked `npm.TIME_TO_INSTALL`; without it the test ends here."""
    try:
        return installed(name)
    except npm.NotInstalled as problem:
        npm.not_tested(problem)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        print(f"There is no program {unknown[0]}; choose from {', '.join(PROGRAMS)}.", file=sys.stderr)
        return 2
    return max([_install_aloud(name) for name in names or PROGRAMS])


def _install_aloud(name: str) -> int:
    print(f"{_folder(name)} ...", flush=True)
    started = time.monotonic()
    try:
        installed(name)
    except npm.NotInstalled as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{_folder(name)}: {time.monotonic() - started:.1f} s, {_megabytes(name)} MB", flush=True)
    return 0


@functools.cache
def _attempt(name: str) -> Path | npm.NotInstalled:
    program = PROGRAMS[name]
    packages = [f"{program.package}@{program.version}", *program.beside]
    try:
        return npm.installed(_folder(name), packages, program.path)
    except npm.NotInstalled as problem:
        return problem


def _folder(name: str) -> str:
    return f"{name}-{PROGRAMS[name].version}"


def _megabytes(name: str) -> int:
    files = (npm.CACHE / "npm" / _folder(name)).rglob("*")
    return sum(file.lstat().st_blocks * 512 for file in files) // 2**20


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
