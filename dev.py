"""Runs everything in a checkout, from a bare Python: `python3 dev.py demo`, `python3 dev.py test`.

Needs nothing but Python 3.11 and its standard library. It brings `.venv` up to date with `uv.lock` first, by way of
`uv`, which it installs into `.uv` where the machine has none.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

USAGE = """\
usage: python3 dev.py COMMAND [ARGUMENTS]

  demo             the product at work, without any account, in under a minute
  test [ARGS]      all tests, on all cores; arguments go to pytest instead
  lint             ruff check, ruff format --check, mypy
  bench [ARGS]     the measurements
  sortie ARGS      any sortie command
"""

ROOT = Path(__file__).resolve().parent
PROGRAMS = ROOT / ".venv" / "bin"
OLDEST_PYTHON = (3, 11)
UV = "uv>=0.13,<1"
ROOM_FOR_TESTS = 8 << 30


def main(arguments: list[str]) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command in {"-h", "--help", "help"}:
        print(USAGE, end="")
        return 0
    if command not in {"demo", "test", "lint", "bench", "sortie"}:
        print(USAGE, end="", file=sys.stderr)
        return 2
    check_python()
    with one_at_a_time():
        synchronise(find_uv())
    return run(command, rest)


def run(command: str, arguments: list[str]) -> int:
    if command == "demo":
        become("sortie", "demo", *arguments)
    if command == "sortie":
        become("sortie", *arguments)
    os.chdir(ROOT)
    # Tests start thousands of processes: none of them should compile what the one before it has.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if command == "test":
        keep_in_memory()
        become("python", "-m", "pytest", *(arguments or ["-n", str(workers()), "--dist", "worksteal"]))
    if command == "bench":
        become("python", "-m", "bench", *arguments)
    return lint()


def keep_in_memory() -> None:
    """Files of tests in memory, where there is room: tests wait for the disk more than for anything else, and to
    them it makes no difference, because a kill leaves the same on both."""
    room = Path("/dev/shm")
    if "TMPDIR" not in os.environ and os.access(room, os.W_OK) and shutil.disk_usage(room).free >= ROOM_FOR_TESTS:
        os.environ["TMPDIR"] = str(room)


def workers() -> int:
    """Two more than there are cores: tests with real agents mostly wait for them."""
    return len(os.sched_getaffinity(0)) + 2


def check_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        present, oldest = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST_PYTHON))
        fail(f"this is Python {present}; run it with Python {oldest} or later, such as `python{oldest} dev.py`.")


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two who bring the same `.venv` up to date at once would break it for each other."""
    with Path(__file__).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another dev.py to finish with .venv ...\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_uv() -> str:
    own = ROOT / ".uv" / "bin" / "uv"
    found = shutil.which("uv") or (str(own) if own.exists() else None)
    if found:
        return found
    missing = [module for module in ("venv", "ensurepip") if importlib.util.find_spec(module) is None]
    if missing:
        fail(f"this Python has no {missing[0]}; install it (on Debian and Ubuntu: `apt install python3-venv`).")
    step(
        "making .uv (first time only)",
        [sys.executable, "-m", "venv", "--clear", str(ROOT / ".uv")],
        "the virtual environment .uv cannot be made; on Debian and Ubuntu `apt install python3-venv` may help.",
    )
    step(
        "installing uv into .uv (first time only)",
        [str(ROOT / ".uv" / "bin" / "python"), "-m", "pip", "install", "--quiet", UV],
        "uv cannot be installed; check the network (or install uv yourself) and run this again.",
    )
    return str(own)


def synchronise(uv: str) -> None:
    first = not PROGRAMS.exists()
    step(
        "creating .venv (first time only)" if first else "checking .venv",
        [uv, "sync", "--frozen", "--inexact", "--python", sys.executable],
        ".venv cannot be brought up to date with uv.lock; check the network and run this again.",
    )


def step(what: str, command: list[str], problem: str) -> None:
    """Run a program and show on one line what it is and how long it took; its output only if it fails."""
    started = time.monotonic()
    say(f"{what} ...")
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    environment |= {"UV_PROJECT_ENVIRONMENT": ".venv", "UV_PYTHON_DOWNLOADS": "never"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        output = None
        while output is None:
            try:
                output, _ = program.communicate(timeout=2)
            except subprocess.TimeoutExpired:
                print(".", end="", file=sys.stderr, flush=True)
    print(f" {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    if program.returncode != 0:
        print(output.rstrip(), file=sys.stderr)
        fail(problem)


def lint() -> int:
    """All three, whatever the first ones say."""
    commands = (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"])
    worst = 0
    for command in commands:
        say(f"{' '.join(command)} ...\n")
        worst = max(worst, subprocess.run([PROGRAMS / command[0], *command[1:]], check=False).returncode)
    return worst


def become(program: str, *arguments: str) -> NoReturn:
    say(f"{' '.join((program, *arguments))} ...\n")
    path = PROGRAMS / program
    if not path.exists():
        fail(f"{path} is missing; remove .venv and run this again.")
    os.execv(path, [str(path), *arguments])


def say(text: str) -> None:
    print(f"dev: {text}", end="", file=sys.stderr, flush=True)


def fail(problem: str) -> NoReturn:
    say(f"{problem}\n")
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
