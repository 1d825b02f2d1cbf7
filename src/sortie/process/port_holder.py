"""Who listens on a port of this machine, as far as we may know."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .tcp_sockets import links_of, listening_on

_COMMAND_BYTES = 400


def port_holders(port: int) -> list[tuple[int, str]]:
    """Number and command of every process that does; none where they are another user's."""
    wanted = set[str]()
    with suppress(OSError):
        wanted = {socket.link for socket in listening_on(port)}
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()] if wanted else []  # noqa: PTH208 - names
    return sorted((pid, _command(pid)) for pid in pids if _has_one_of(wanted, pid))


def _has_one_of(wanted: set[str], pid: int) -> bool:
    try:
        return any(link in wanted for link in links_of(pid))
    except OSError:
        return False


def _command(pid: int) -> str:
    raw = b""
    with suppress(OSError), Path(f"/proc/{pid}/cmdline").open("rb") as file:
        raw = file.read(_COMMAND_BYTES)
    return raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
