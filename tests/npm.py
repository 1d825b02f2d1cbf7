"""Programs from npm, each installed once into `.cache` of the checkout and shared by all who run tests there."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    with _locked(folder_name, cache) as folder:
        complete = folder / "complete"
        if not complete.exists():
            _install(folder, packages)
        found = sorted((folder / "node_modules").glob(program))
        if not found:
            raise NotInstalled(f"{packages[0]} has no {program} here; remove {folder} and try again.")
        complete.touch()
    return found[-1]


def one_file(folder_name: str, package: str, name: str, cache: Path = CACHE) -> Path:
    """One file of a package, by its path in it, where all the rest would take too much room."""
    with _locked(folder_name, cache) as folder:
        found = folder / Path(name).name
        if not found.exists():
            _run(folder, ["pack", *_OPTIONS, package], package)
            (archive,) = folder.glob("*.tgz")
            with tarfile.open(archive) as packed:
                content = packed.extractfile(f"package/{name}")
                assert content, f"{package} has no {name}"
                fresh = folder / "fresh"
                fresh.write_bytes(content.read())
            archive.unlink()
            fresh.replace(found)
    return found


@contextmanager
def _locked(folder_name: str, cache: Path) -> Iterator[Path]:
    """The folder, as long as nobody else may use it."""
    folder = cache / "npm" / folder_name
    folder.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def not_tested(problem: NotInstalled) -> NoReturn:
    """Skip the test loudly; where npm is there and nobody would read of it, fail."""
    message = f"NOT TESTED: {problem}"
    if os.environ.get("CI") == "true" and shutil.which("npm"):
        pytest.fail(message)
    pytest.skip(message)


def _install(folder: Path, packages: Sequence[str]) -> None:
    # npm takes a package that was cut off in the middle for a whole one.
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    _run(folder, ["install", "--prefix", str(folder), *_OPTIONS, *packages], packages[0])


def _run(folder: Path, arguments: Sequence[str], package: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled(f"npm is missing; install Node.js 20 or later to test with {package}.")
    try:
        done = subprocess.run(
            [npm, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm did not install {package} within {_SECONDS} s; check the network.") from None
    if done.returncode != 0:
        first = (done.stderr.strip().splitlines() or ["no output"])[0].removeprefix("npm error ")
        raise NotInstalled(f"npm cannot install {package} ({first}); check the network.")
