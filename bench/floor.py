"""What nobody can beat: the same programs by `posix_spawn`, as many at once, with pipes and nothing else."""

from __future__ import annotations

import os
import select
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from .stamps import Stamps

PROMPT = b"Work on it.\n"


class Floor(Struct, frozen=True):
    """Agents per second, seconds of CPU that starting each took us, and seconds between one and the next."""

    rate: float
    cpu: float
    gaps: list[float]


def spawned(program: Path, folder: Path, count: int, slots: int) -> Floor:
    """Run the agent `count` times, `slots` at once."""
    folder.mkdir(parents=True, exist_ok=True)
    workspaces = [folder / f"{n}" for n in range(count)]
    for workspace in workspaces:
        workspace.mkdir(exist_ok=True)
    stamps = Stamps(folder)
    stamps.clear()
    before = time.process_time()
    run([str(program)], [_environment(folder, workspace) for workspace in workspaces], slots)
    cpu = time.process_time() - before
    return Floor(rate=stamps.rate(), cpu=cpu / count, gaps=stamps.gaps())


def _environment(folder: Path, workspace: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "SORTIE_WORKFLOW_DIR": str(folder),
        "SORTIE_WORKSPACE": str(workspace),
        "SORTIE_ISSUE_IDENTIFIER": f"F-{workspace.name}",
    }


def run(argv: list[str], environments: Sequence[dict[str, str]], slots: int) -> None:
    """One process for each environment, until all have ended; what they print is read and thrown away."""
    poll = select.epoll()
    alive: dict[int, tuple[int, int]] = {}
    waiting = list(reversed(environments))
    while waiting or alive:
        while waiting and len(alive) < slots:
            pid, output, errors = _spawn(argv, waiting.pop())
            alive[output] = (pid, errors)
            poll.register(output, select.EPOLLIN)
        for output, _ in poll.poll():
            if os.read(output, 65536):
                continue
            pid, errors = alive.pop(output)
            while os.read(errors, 65536):
                pass
            poll.unregister(output)  # a process that is just being started may still have it too
            os.close(output)
            os.close(errors)
            _, status = os.waitpid(pid, 0)
            if status:
                raise RuntimeError(f"{argv[0]} ended with {os.waitstatus_to_exitcode(status)}")
    poll.close()


def _spawn(argv: list[str], environment: dict[str, str]) -> tuple[int, int, int]:
    (stdin, feed), (output, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, theirs, n) for n, theirs in enumerate((stdin, stdout, stderr))]
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
    for theirs in (stdin, stdout, stderr):
        os.close(theirs)
    os.write(feed, PROMPT)
    os.close(feed)
    return pid, output, errors


_SPAWN_MANY = """
import os, sys
pids = [os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ) for _ in range(int(sys.argv[1]))]
for pid in pids:
    os.waitpid(pid, 0)
"""


def first_instruction(program: Path, folder: Path, *, from_python: bool = False, count: int = 1) -> float:
    """Seconds from `posix_spawn` to the agent's first instruction; of the last, if there are more.

    From a bare Python, which has to start first, it is the floor of anything that is written in Python.
    """
    workspace = folder / "0"
    workspace.mkdir(parents=True, exist_ok=True)
    stamps = Stamps(folder)
    stamps.clear()
    starter = [sys.executable, "-c", _SPAWN_MANY, str(count)] if from_python else []
    before = time.monotonic()
    run([*starter, str(program)], [_environment(folder, workspace)], 1)
    return stamps.starts()[-1] - before


def bare_python(at_once: int = 1) -> None:
    """`python -c pass`, as often at once."""
    run([sys.executable, "-c", "pass"], [dict(os.environ)] * at_once, at_once)


def seconds(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def side_by_side(
    ours: Callable[[], object], floor: Callable[[], object], times: int, afterwards: Callable[[], object] = bool
) -> tuple[float, float]:
    """Median seconds of both, taken in turns because the speed of the machine moves; the first of each warms up.

    `afterwards` clears up after each of ours, outside the measured time.
    """
    mine, floors = [], []
    for _ in range(times + 1):
        mine.append(seconds(ours))
        afterwards()
        floors.append(seconds(floor))
    return statistics.median(mine[1:]), statistics.median(floors[1:])
