"""Whether the process at the other end of a connection belongs to an agent.

The kernel lists both ends of a connection within this machine, each with the inode of its socket; /proc shows which
process has that socket open. So it does not depend on headers or tokens.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Literal

from ..process.identity import RUN_MARK, limit_marker_of, mark_of
from ..process.process_table import Process, Table, snapshot, tree_of
from ..process.tcp_sockets import Address, TcpSocket, links_of, socket_between
from ..protocol.web_address import is_loopback

# `agent`: a process of a run has the other end. `nobody`: it is on this machine, and nobody has it open any more.
# `other`: anybody else, on this machine or not.
Sender = Literal["agent", "nobody", "other"]

# An agent that opens more files than this is not waited for: it gets no answer, like any other.
_MOST_DESCRIPTORS = 50_000


def sender_of(client: Address, server: Address, service_pid: int = 0) -> Sender:
    """Who is behind this connection to us. Everything below the service, but for us, is of an agent too: it marks
    what it starts, and inherits what loses its parents and its marks."""
    found = socket_between(client, server)
    if found is None:
        # A connection from this machine is in the table for as long as somebody has it.
        return "nobody" if is_loopback(client[0]) or client[0] == server[0] else "other"
    if not found.inode:
        return "nobody"
    table = snapshot()
    if _have_open(tree_of(table, _roots(table, service_pid)), found):
        return "agent"
    # Whoever closed it while we looked, or ended, had nothing open by the time that we came to it.
    return "other" if socket_between(client, server) == found else "nobody"


def _roots(table: Table, service_pid: int) -> Iterator[Process]:
    for process in table.values():
        if process.ended or process.pid == os.getpid():
            continue
        if (service_pid and process.ppid == service_pid) or _is_marked(process.pid):
            yield process


def _is_marked(pid: int) -> bool:
    return bool(mark_of(pid, RUN_MARK) or limit_marker_of(pid))


def _have_open(processes: Iterable[int], socket: TcpSocket) -> bool:
    """Whether one of these has it. Where that cannot be seen, it is believed of a process of the same user as the
    socket."""
    wanted, left = socket.link, _MOST_DESCRIPTORS
    for pid in processes:
        if pid == os.getpid():
            continue
        try:
            for link in links_of(pid):
                left -= 1
                if left < 0 or link == wanted:
                    return True
        except PermissionError:
            if _user_of(pid) == socket.uid:
                return True
        except OSError:
            continue  # it ended
    return False


def _user_of(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116
    except OSError:
        return -1
