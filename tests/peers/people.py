"""Processes as who a test wants them to be, wherever the tests themselves run: also inside a run or an agent."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sortie.process.identity import limit_marker

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
CLEAN = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT / "src")}


def as_a_person(
    command: Sequence[str], env: Mapping[str, str] | None = None, *, of_run: tuple[str, str] | None = None
) -> str:
    """What it prints, when nobody above it is known any more and nothing in its environment says who it is.

    `of_run` names the store and run whose mark it bears nevertheless.
    """
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            _leave_marks(of_run)
            done = subprocess.run(command, env={**CLEAN, **(env or {})}, capture_output=True, check=False)
            os.write(writer, (done.stdout or done.stderr)[-60_000:])
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        return answer.read().decode()


def _leave_marks(of_run: tuple[str, str] | None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    resource.setrlimit(resource.RLIMIT_RTTIME, (limit_marker(*of_run) if of_run else hard, hard))
