"""The processes there are, all or those below some, and who belongs to whom. Reads /proc, signals nobody."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from msgspec import Struct

from .identity import stat_fields

# A flag of threads of the kernel, of which a large machine has thousands.
_PF_KTHREAD = 0x00200000


class Process(Struct, frozen=True):
    pid: int
    ppid: int
    sid: int
    start_ticks: int
    state: str
    threads: int

    @property
    def ended(self) -> bool:
        """A zombie. A process whose first thread alone has ended looks like one, but goes on."""
        return self.state in "ZX" and self.threads <= 1


Table = Mapping[int, Process]


def snapshot() -> dict[int, Process]:
    """Every process there is, zombies included; threads of the kernel are none. Not atomic: ask again until nothing
    new turns up."""
    table = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all we need, and this is the fast way
        if not name.isdecimal() or (fields := stat_fields(int(name))) is None:
            continue
        if not int(fields[6]) & _PF_KTHREAD:
            table[int(name)] = _process(int(name), fields)
    return table


def descendants(roots: Iterable[int]) -> dict[int, Process]:
    """Those of the roots that exist, and everybody below them. Not atomic either.

    Only for those who know that the kernel lists children: see `inherited_children`.
    """
    table: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in table and (process := look_up(pid)) is not None:
            table[pid] = process
            if not process.ended:
                waiting += _children(pid)
    return table


def inherited_children() -> list[int] | None:
    """The children of our main thread; None where the kernel does not list them.

    Each thread has its own children. What is orphaned comes to the first thread that lives, which is the main one.
    """
    pid = os.getpid()
    return _children_of_thread(pid, pid)


def look_up(pid: int) -> Process | None:
    fields = stat_fields(pid)
    return None if fields is None else _process(pid, fields)


def is_suspended(pid: object) -> bool:
    """By Ctrl-Z or a debugger: it does nothing until somebody lets it go on."""
    process = look_up(pid) if isinstance(pid, int) else None
    return process is not None and process.state in "Tt"


def _process(pid: int, fields: list[bytes]) -> Process:
    return Process(
        pid=pid,
        ppid=int(fields[1]),
        sid=int(fields[3]),
        start_ticks=int(fields[19]),
        state=fields[0].decode("ascii"),
        threads=int(fields[17]),
    )


def tree_of(table: Table, roots: Iterable[Process]) -> dict[int, Process]:
    """The roots, all their descendants, and everybody in a session that one of them leads.

    A session is inherited by birth only, so its members are descendants of its leader even where the
    parents between them have died.
    """
    below: defaultdict[int, list[Process]] = defaultdict(list)
    for process in table.values():
        below[process.ppid].append(process)
        below[process.sid].append(process)
    found: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        process = waiting.pop()
        if process.pid not in found:
            found[process.pid] = process
            waiting += below[process.pid]
    return found


class ProcessTree:
    """A tree watched over time: who was once seen in it stays in it, whatever becomes of the parents."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def living(self, table: Table, roots: Iterable[Process]) -> list[Process]:
        again = [p for p in table.values() if (p.pid, p.start_ticks) in self._seen]
        found = tree_of(table, [*roots, *again]).values()
        self._seen = {(p.pid, p.start_ticks) for p in found}
        return [p for p in found if not p.ended]


def adopted(table: Table, started: Collection[int]) -> list[Process]:
    """Our children that we did not start: orphans the kernel gave us as their subreaper, zombies included.

    Whatever we start in a session of its own is in `started`; what shares our session is no agent's,
    because a process cannot come back into a session that it left.
    """
    me, session = os.getpid(), os.getsid(0)
    return [p for p in table.values() if p.ppid == me and p.sid != session and p.pid not in started]


def reap(orphans: Iterable[Process]) -> None:
    """Take the exit status of adopted zombies, each by its number: a wait for any would rob other waiters."""
    for process in orphans:
        if process.ended:
            with suppress(ChildProcessError):  # reaped between the snapshot and now
                os.waitpid(process.pid, os.WNOHANG)


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except (FileNotFoundError, ProcessLookupError):
        return []  # gone in the meantime, and what it left is somebody else's child
    return [child for thread in threads for child in _children_of_thread(pid, int(thread)) or ()]


def _children_of_thread(pid: int, thread: int) -> list[int] | None:
    raw = b""
    try:
        fd = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY)
        try:
            while chunk := os.read(fd, 1 << 16):
                raw += chunk
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return [int(child) for child in raw.split()]
