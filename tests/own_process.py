"""Tests that fork often, each in a small process of its own.

The kernel copies the page tables of a process that forks: that takes 25 ms in a worker that has collected ten
thousand tests, and 2 ms in one that has collected a single one.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
INSIDE = "SORTIE_TEST_IN_OWN_PROCESS"


def in_own_process(test: Callable[..., None]) -> Callable[..., Any]:
    """For a test without parameters; its fixtures are made in there."""
    if os.environ.get(INSIDE):
        return test
    name = f"{inspect.getsourcefile(test)}::{test.__name__}"

    @pytest.mark.timeout(180)
    def run(tmp_path: Path) -> None:
        runner = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path / 'inside'}",
        ]
        done = subprocess.run(
            [*runner, name], cwd=ROOT, env={**os.environ, INSIDE: "1"}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
