"""What a test sees of processes from outside: waiting with a deadline, and who is alive below a directory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DEADLINE = 45.0
LOOK_EVERY = 0.02


def wait_for(condition: Callable[[], T | None], seconds: float = DEADLINE, explain: Callable[[], str] = str) -> T:
    """The first true answer; an `AssertionError` when the deadline passes without one."""
    give_up = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < give_up, f"not true within {seconds} s\n{explain()}"
        time.sleep(LOOK_EVERY)
    return result


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def peak_memory_mb(pid: int) -> float:
    """The most memory the process ever had, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no memory")


def living_in(directory: Path, mark: str) -> list[int]:
    """Processes with `mark` in their environment, or working below `directory`; not this one or its ancestors."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) not in _our_line() and _belongs(int(name), directory, mark):
            found.append(int(name))
    return found


def kill_all(living: Callable[[], list[int]]) -> None:
    """End them all; the dying may start others, so ask until nobody is left."""

    def nobody_left() -> bool:
        found = living()
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended between the look and the signal
        return not found

    wait_for(nobody_left)


def _belongs(pid: int, directory: Path, mark: str) -> bool:
    try:
        if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
            return is_alive(pid)
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(directory) and is_alive(pid)
    except OSError:
        return False


def _our_line() -> set[int]:
    return {os.getpid(), os.getppid()}
