"""The inspector from npm, installed once into `.cache` of the checkout: `python -m tests.tools.inspector`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

VERSION = "2.12.0"
CACHE = Path(__file__).parents[2] / ".cache"

_SECONDS = 240


class NotInstalled(Exception):
    """What is missing, in one sentence."""


def installed() -> Path:
    """The program, installed first where it is not there yet; about 110 MB and half a minute, the first time."""
    folder = CACHE / "npm" / f"inspector-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    complete = folder / "complete"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            _install(folder)
            complete.touch()
    return folder / "node_modules" / ".bin" / "mcp-inspector"


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is missing; install Node.js 20 or later to check the sidecar with the inspector.")
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    command = [npm, "install", "--prefix", str(folder), *options, f"@modelcontextprotocol/inspector@{VERSION}"]
    try:
        done = subprocess.run(
            command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm did not install the inspector within {_SECONDS} s; check the network.") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise NotInstalled(f"npm cannot install the inspector ({last[0]}); check the network.")


if __name__ == "__main__":
    print(installed())
