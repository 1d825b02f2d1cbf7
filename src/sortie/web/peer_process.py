"""Which process is at the other end of a connection, as far as it matters: whether it is one of an agent's.

The kernel lists both ends of a connection within this machine, each with the number of its socket; who has that
socket open is in /proc. So it does not matter what a request says of itself, nor whose token it shows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Literal

from ..process.identity import RUN_MARK, limit_marker_of, mark_of
from ..process.process_table import Process, Table, snapshot, tree_of

# `agent`: a process of a run has the other end. `nobody`: it is on this machine, and nobody has it open any more.
# `other`: anybody else, on this machine or not.
Peer = Literal["agent", "nobody", "other"]
Address = tuple[str, int]

# The kernel's tables of connections.
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
# An agent that opens more files than this is not waited for: it gets no answer, like any other.
_MOST_DESCRIPTORS = 50_000


def peer_of(client: Address, server: Address, service_pid: int = 0) -> Peer:
    """Who is behind this connection to us. Everything below the service, but for us, is of an agent too: it marks
    what it starts, and inherits what loses its parents and its marks."""
    found = _socket_of(client, server)
    if found is None:
        # A connection from this machine is in the table for as long as somebody has it.
        return "nobody" if ip_address(client[0]).is_loopback or client[0] == server[0] else "other"
    inode, uid = found
    if not inode:
        return "nobody"
    table = snapshot()
    agents = tree_of(table, _roots(table, service_pid))
    return "agent" if _has_open(agents, inode, uid) else "other"


def _roots(table: Table, service_pid: int) -> Iterator[Process]:
    for process in table.values():
        if process.ended or process.pid == os.getpid():
            continue
        if (service_pid and process.ppid == service_pid) or _is_marked(process.pid):
            yield process


def _is_marked(pid: int) -> bool:
    return bool(mark_of(pid, RUN_MARK) or limit_marker_of(pid))


def _socket_of(client: Address, server: Address) -> tuple[int, int] | None:
    """Number and user of the client's socket; the number is 0 when nobody has it open. None where it is not on this
    machine."""
    wanted = {(local, remote) for local, remote in zip(_spellings(client), _spellings(server), strict=True)}
    for table in _TABLES:
        for row in _rows(table):
            if (row[_LOCAL], row[_REMOTE]) in wanted:
                return int(row[_INODE]), int(row[_UID])
    return None


def _rows(table: Path) -> Iterator[list[str]]:
    try:
        with table.open(encoding="ascii") as lines:
            next(lines)
            for line in lines:
                yield line.split(maxsplit=_INODE + 1)
    except FileNotFoundError:
        return  # a kernel without IPv6


def _spellings(address: Address) -> list[str]:
    """As the kernel writes it: in each of the two families, an IPv4 one may be spoken to through IPv6."""
    host, port = ip_address(address[0].partition("%")[0]), address[1]
    if isinstance(host, IPv6Address) and host.ipv4_mapped:
        host = host.ipv4_mapped
    mapped = IPv6Address(f"::ffff:{host}") if isinstance(host, IPv4Address) else host
    return [f"{_words(each.packed)}:{port:04X}" for each in (host, mapped)]


def _words(packed: bytes) -> str:
    """Four bytes at a time, each as a number of this machine."""
    return "".join(f"{int.from_bytes(packed[at : at + 4], sys.byteorder):08X}" for at in range(0, len(packed), 4))


def _has_open(processes: Iterable[int], inode: int, uid: int) -> bool:
    """Whether one of these has the socket open. Where that cannot be seen, it is believed of a process of the same
    user as the socket."""
    wanted = f"socket:[{inode}]"
    left = _MOST_DESCRIPTORS
    for pid in processes:
        if pid == os.getpid():
            continue
        folder = f"/proc/{pid}/fd"
        try:
            descriptors = os.listdir(folder)  # noqa: PTH208 - names are all we need, and there may be many
        except PermissionError:
            if _user_of(pid) == uid:
                return True
            continue
        except OSError:
            continue  # it ended
        left -= len(descriptors)
        if left < 0 or any(_target(f"{folder}/{name}") == wanted for name in descriptors):
            return True
    return False


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115
    except OSError:
        return ""  # closed meanwhile


def _user_of(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116
    except OSError:
        return -1
