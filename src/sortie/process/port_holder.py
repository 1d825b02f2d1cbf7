"""Who listens on a port of this machine, as far as we may know."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _STATE, _INODE = 1, 3, 9
_LISTENS = "0A"
_COMMAND_BYTES = 400


def port_holders(port: int) -> list[tuple[int, str]]:
    """Number and command of every process that does; none where they are another user's."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    found = []
    for name in os.listdir("/proc") if sockets else ():  # noqa: PTH208 - names are all we need
        if name.isdecimal() and _has_one_of(sockets, name):
            raw = b""
            with suppress(OSError), Path(f"/proc/{name}/cmdline").open("rb") as file:
                raw = file.read(_COMMAND_BYTES)
            command = raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
            found.append((int(name), command))
    return sorted(found)


def _listening(port: int) -> Iterator[str]:
    for table in _TABLES:
        with suppress(OSError):  # a kernel without IPv6 has one of them only
            for line in table.read_text("ascii", "replace").splitlines()[1:]:
                fields = line.split()
                if fields[_STATE] == _LISTENS and int(fields[_LOCAL].rpartition(":")[2], 16) == port:
                    yield fields[_INODE]


def _has_one_of(sockets: set[str], pid: str) -> bool:
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError:
        return False
    for descriptor in descriptors:
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") in sockets:  # noqa: PTH115
                return True
    return False
