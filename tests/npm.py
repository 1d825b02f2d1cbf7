"""Programs from npm, each installed once into `.cache` of the checkout and shared by all who run tests there."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

CACHE = Path(__file__).parents[1] / ".cache"

# For tests that install: two may wait for the same lock, and each then has its own try.
TIME_TO_INSTALL = pytest.mark.timeout(600)

_SECONDS = 240
_OPTIONS = [
    "--save-exact",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
]


class NotInstalled(Exception):
    """What is missing, in one sentence."""


def installed(folder_name: str, packages: Sequence[str], program: str, cache: Path = CACHE) -> Path:
    """The program, a pattern below `node_modules`, installed first where it is not there yet.

    Of several that match it is the last by name.
    """
    folder = cache / "npm" / folder_name
    folder.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    complete = folder / "complete"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            _install(folder, packages)
        found = sorted((folder / "node_modules").glob(program))
        if not found:
            raise NotInstalled(f"{packages[0]} has no {program} here; remove {folder} and try again.")
        complete.touch()
    return found[-1]


def not_tested(problem: NotInstalled) -> NoReturn:
    """Skip the test loudly; where npm is there and nobody would read of it, fail."""
    message = f"NOT TESTED: {problem}"
    if os.environ.get("CI") == "true" and shutil.which("npm"):
        pytest.fail(message)
    pytest.skip(message)


def _install(folder: Path, packages: Sequence[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled(f"npm is missing; install Node.js 20 or later to test with {packages[0]}.")
    # npm takes a package that was cut off in the middle for a whole one.
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    try:
        done = subprocess.run(
            [npm, "install", "--prefix", str(folder), *_OPTIONS, *packages],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm did not install {packages[0]} within {_SECONDS} s; check the network.") from None
    if done.returncode != 0:
        first = (done.stderr.strip().splitlines() or ["no output"])[0].removeprefix("npm error ")
        raise NotInstalled(f"npm cannot install {packages[0]} ({first}); check the network.")
