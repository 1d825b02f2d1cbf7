"""A person's script run in a workspace, with a deadline, and nothing of it left running afterwards."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from ..errors import HookError, SortieError
from ..process.child import Exit, start

_TAIL_CHARACTERS = 2048
_LAST_WORDS = 200
_END_GRACE = 2.0


async def run_hook(
    name: str,
    script: str,
    *,
    workspace: Path,
    workspace_fd: int,
    env: Mapping[str, str],
    run_id: str,
    timeout: float,
    on_line: Callable[[str], None],
) -> None:
    """Run `sh -e -c script` to its end, or to the first of its commands that fails.

    Every line that it prints goes to `on_line`. Its standard input is empty.
    """
    command = ["sh", "-e", "-c", script]
    try:
        child = await start(command, cwd_fd=workspace_fd, env=env, run_id=run_id, workspace=workspace)
    except SortieError as error:
        raise HookError(f"Hook {name} could not start: {error.message}", fix=error.fix) from error
    tail = ""
    exit = None
    try:
        with anyio.move_on_after(timeout):
            await child.feed(b"")
            async for raw in child.lines():
                line = raw.decode("utf-8", "replace")
                tail = f"{tail}\n{line[-_TAIL_CHARACTERS:]}"[-_TAIL_CHARACTERS:]
                on_line(line)
            exit = await child.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await child.end(_END_GRACE)
    output = tail.lstrip("\n")
    if exit is None:
        raise HookError(
            f"Hook {name} did not end within {timeout:g} s{_last_words(output)}.",
            output=output,
            fix="Make it quicker, or raise hooks.timeout_ms.",
        )
    if exit.code != 0:
        raise HookError(f"Hook {name} failed: {_how(exit)}{_last_words(output)}.", output=output)


def _last_words(output: str) -> str:
    """The last line, as the end of a sentence: what most programs say of the reason."""
    last = output.rstrip().rpartition("\n")[2].strip()
    return f": {last[-_LAST_WORDS:].rstrip('.')}" if last else ""


def _how(exit: Exit) -> str:
    if exit.signal is None:
        return f"exit code {exit.code}"
    return f"ended by {signal.strsignal(exit.signal) or exit.signal}"
