"""The TCP sockets of this machine as the kernel lists them, and which processes have them open."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from msgspec import Struct

Address = tuple[str, int]

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9
_LISTENS = "0A"
_COMMAND_BYTES = 400


class TcpSocket(Struct, frozen=True):
    """`inode` is its number, 0 when no process has it open; `uid` is whose it is."""

    inode: int
    uid: int

    @property
    def link(self) -> str:
        """What descriptors of it lead to."""
        return f"socket:[{self.inode}]"


def listening_on(port: int) -> Iterator[TcpSocket]:
    """Those that do, on whatever address."""
    for row in _rows():
        if row[_STATE] == _LISTENS and int(row[_LOCAL].rpartition(":")[2], 16) == port:
            yield _socket(row)


def socket_between(local: Address, remote: Address) -> TcpSocket | None:
    """The end of this connection that has the address `local`; None where that is not on this machine."""
    wanted = {*zip(_spellings(local), _spellings(remote), strict=True)}
    return next((_socket(row) for row in _rows() if (row[_LOCAL], row[_REMOTE]) in wanted), None)


def links_of(pid: int) -> Iterator[str]:
    """What each descriptor of this process leads to, empty for one that was closed meanwhile. Raises
    `PermissionError` where we may not see that, another `OSError` where it has ended."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208 - names are all we need, and there may be many
        try:
            yield os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except OSError:
            yield ""


def port_holders(port: int) -> list[tuple[int, str]]:
    """Number and command of every process that listens there; none where they are another user's."""
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


def _rows() -> Iterator[list[str]]:
    for table in _TABLES:
        try:
            with table.open(encoding="ascii") as lines:
                next(lines)
                for line in lines:
                    yield line.split(maxsplit=_INODE + 1)
        except FileNotFoundError:
            continue  # a kernel without IPv6


def _socket(row: list[str]) -> TcpSocket:
    return TcpSocket(int(row[_INODE]), int(row[_UID]))


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
