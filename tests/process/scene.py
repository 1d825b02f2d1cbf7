"""What the tests of processes see from outside: who is alive, and waiting for something to become true."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from sortie.process.child import Child
from sortie.process.identity import ProcessIdentity, identify
from sortie.process.process_table import look_up

WAIT_FOR_DAEMON = "while [ ! -s daemon.pid ]; do sleep 0.01; done"


def daemon(directory: Path, before: str = "", does: str = "") -> str:
    """A command that writes its number to daemon.pid and stays; `before` stands before its shell, like `setsid`."""
    script = f"{does} echo $$ > {shlex.quote(str(directory))}/daemon.pid; while :; do sleep 600; done"
    return f"{before} sh -c {shlex.quote(script)}"


async def until(condition: Callable[[], Any], seconds: float = 30) -> Any:
    with anyio.fail_after(seconds):
        while not (result := condition()):
            await anyio.sleep(0.01)
        return result


def daemon_of(workspace: Path) -> ProcessIdentity | None:
    """The identity of the daemon that wrote its number, or None while it has not."""
    path = workspace / "daemon.pid"
    text = path.read_text() if path.exists() else ""
    return identify(int(text)) if text.endswith("\n") else None


def is_running(identity: ProcessIdentity | None) -> bool:
    assert identity is not None
    process = look_up(identity.pid)
    return process is not None and process.start_ticks == identity.start_ticks and not process.ended


def is_in_table(identity: ProcessIdentity) -> bool:
    process = look_up(identity.pid)
    return process is not None and process.start_ticks == identity.start_ticks


def ticks_now() -> int:
    """The time in the unit and from the origin of the start times of processes."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


async def all_lines(child: Child) -> list[bytes]:
    return [line async for line in child.lines()]
