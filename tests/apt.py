"""Programs from Debian, installed where they are missing, by one at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from .npm import CACHE
from .npm import NotInstalled as NotInstalled

SECONDS = 400
APT = ["apt-get", "-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=300"]


def installed(programs: Sequence[str], packages: Sequence[str], files: Sequence[Path] = ()) -> None:
    """Return when the programs and the files are there; raises `NotInstalled`."""
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    with (CACHE / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(map(shutil.which, programs)) or not all(map(Path.exists, files)):
            _install(packages)


def not_tested(problem: NotInstalled) -> NoReturn:
    """Skip the test loudly; where apt is there and nobody would read of it, fail."""
    message = f"NOT TESTED: {problem}"
    if os.environ.get("CI") == "true" and shutil.which("apt-get"):
        pytest.fail(message)
    pytest.skip(message)


def _install(packages: Sequence[str]) -> None:
    named = " ".join(packages)
    if not shutil.which(APT[0]):
        raise NotInstalled(f"apt-get is missing; {named} is installed from Debian to test with it.")
    if os.geteuid() != 0:
        raise NotInstalled(f"{named} can be installed by root only; run: apt-get install {named}.")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ([*APT, "update"], [*APT, "install", "-y", "--no-install-recommends", *packages]):
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"{named} cannot be installed: apt-get did not end within {SECONDS} s.") from None
        if done.returncode != 0:
            last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]
            raise NotInstalled(f"{named} cannot be installed; check the network: apt-get says: {last}")
