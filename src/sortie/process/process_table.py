"""The process table as it is now, and who belongs to whom in it. Reads /proc, signals nobody."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from .brand import brand_of
from .identity import RUN_MARK, stat_fields


class Process(Struct, frozen=True):
    pid: int
    ppid: int
    pgid: int
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
    """Every process there is, zombies included. Not atomic: ask again until nothing new turns up."""
    table = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all we need, and this is the fast way
        if name.isdecimal() and (process := look_up(int(name))) is not None:
            table[process.pid] = process
    return table


def look_up(pid: int) -> Process | None:
    fields = stat_fields(pid)
    if fields is None:
        return None
    return Process(
        pid=pid,
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        sid=int(fields[3]),
        start_ticks=int(fields[19]),
        state=fields[0].decode("ascii"),
        threads=int(fields[17]),
    )


def family(table: Table, roots: Iterable[Process]) -> dict[int, Process]:
    """The roots, all their descendants, and everybody in a session that one of them leads.

    A session is inherited by birth only, so its members are descendants of its leader even where the
    parents between them have died.
    """
    heirs: defaultdict[int, list[Process]] = defaultdict(list)
    for process in table.values():
        heirs[process.ppid].append(process)
        heirs[process.sid].append(process)
    found: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        process = waiting.pop()
        if process.pid not in found:
            found[process.pid] = process
            waiting += heirs[process.pid]
    return found


class Kin:
    """A family watched over time: who was once seen in it stays in it, whatever becomes of the parents."""

    def __init__(self) -> None:
        self._seen: dict[int, Process] = {}

    def living(self, table: Table, roots: Iterable[Process]) -> list[Process]:
        again = [table[pid] for pid, was in self._seen.items() if _is_still(table, was)]
        self._seen = family(table, [*roots, *again])
        return [process for process in self._seen.values() if not process.ended]


def _is_still(table: Table, was: Process) -> bool:
    now = table.get(was.pid)
    return now is not None and now.start_ticks == was.start_ticks


def adopted(table: Table, started: Collection[int]) -> list[Process]:
    """Our children that we did not start: orphans the kernel gave us as their subreaper, zombies included.

    Whatever we start in a session of its own is in `started`; what shares our session is no agent's,
    because a process cannot come back into a session that it left.
    """
    me, session = os.getpid(), os.getsid(0)
    return [p for p in table.values() if p.ppid == me and p.sid != session and p.pid not in started]


class Traits(Struct, frozen=True):
    """What tells where a process comes from, whatever became of its parents; empty where there is nothing."""

    run_id: str
    brand: int
    directory: Path | None


def traits_of(pid: int) -> Traits:
    try:
        # The kernel adds this to the name of a directory that was removed.
        directory = Path(str(Path(f"/proc/{pid}/cwd").readlink()).removesuffix(" (deleted)"))
    except OSError:
        directory = None
    return Traits(mark_of(pid, RUN_MARK), brand_of(pid), directory)


def reap(orphans: Iterable[Process]) -> None:
    """Take the exit status of adopted zombies, each by its number: a wait for any would rob other waiters."""
    for process in orphans:
        if process.ended:
            try:
                os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:
                pass  # reaped between the snapshot and now


def mark_of(pid: int, name: str) -> str:
    """The value of one variable in the environment the process was started with; empty if not to be had."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    prefix = os.fsencode(name) + b"="
    for entry in raw.split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return ""
