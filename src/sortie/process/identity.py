"""Who a process is, beyond its number, and by what we know whose it is.

Pids are reused; a pid with its start time and boot is not. Where a process comes from is told by a variable in its
environment, by its working directory, and by a marker that it keeps whatever becomes of these: a resource limit.
Limits are inherited by birth and survive `exec`. The one on real-time computing concerns hardly anybody, and one of
146,000 years concerns nobody, so its digits can say whose a process is.
"""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

# In the environment of everything we start, and inherited by everything that starts in turn.
STORE_MARK = "SORTIE_STORE_ID"
RUN_MARK = "SORTIE_RUN_ID"
WORKSPACE_MARK = "SORTIE_WORKSPACE"

_START_TICKS = 19

_LIMIT = resource.RLIMIT_RTTIME
_LIMIT_LINE = b"Max realtime timeout"
_LEAST_MARKER = 1 << 62
_STORE_BITS = 36
_RUN_BITS = 26


class ProcessIdentity(Struct, frozen=True):
    pid: int
    start_ticks: int
    boot_id: str


class Traits(Struct, frozen=True):
    """What tells where a process comes from, whatever became of its parents; empty where there is nothing."""

    run_id: str
    limit_marker: int
    directory: Path | None


@cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a process that exists now, zombies included; None if there is none."""
    ticks = start_ticks(pid)
    return None if ticks is None else ProcessIdentity(pid, ticks, boot_id())


def start_ticks(pid: int) -> int | None:
    fields = stat_fields(pid)
    return None if fields is None else int(fields[_START_TICKS])


def stat_fields(pid: int) -> list[bytes] | None:
    """What /proc/PID/stat says after the command name, the state first; None if there is no such process."""
    try:
        # Plain descriptors, because a scan of all processes does this thousands of times.
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            raw = os.read(fd, 4096)
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name stands in parentheses and may itself hold spaces and parentheses.
    return raw[raw.rindex(b")") + 2 :].split(b" ", _START_TICKS + 1)


def traits_of(pid: int) -> Traits:
    try:
        # The kernel adds this to the name of a directory that was removed.
        directory = Path(str(Path(f"/proc/{pid}/cwd").readlink()).removesuffix(" (deleted)"))
    except OSError:
        directory = None
    return Traits(mark_of(pid, RUN_MARK), limit_marker_of(pid), directory)


def mark_of(pid: int, name: str) -> str:
    """The value of one variable in the environment the process was started with; empty if not to be had."""
    prefix = os.fsencode(name) + b"="
    for entry in _read(pid, "environ").split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return ""


def limit_marker(store_id: str, run_id: str) -> int:
    """The limit that says: of this run of this store."""
    return _LEAST_MARKER | _digest(store_id, _STORE_BITS) << _RUN_BITS | _digest(run_id, _RUN_BITS)


def limit_marker_of(pid: int) -> int:
    """The marker of a process; 0 if it has none, or if that is not to be had."""
    soft = _read(pid, "limits").partition(_LIMIT_LINE)[2].split(maxsplit=1)[:1]
    number = int(soft[0]) if soft and soft[0].isdigit() else 0
    return number if number >= _LEAST_MARKER else 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def is_of_store(marker: int, store_id: str) -> bool:
    return marker >> _RUN_BITS == limit_marker(store_id, "") >> _RUN_BITS


def is_of_run(marker: int, run_id: str) -> bool:
    """Whether a process with this marker is of that run, of whichever store; another run may look the same."""
    return marker != 0 and (marker ^ limit_marker("", run_id)) % (1 << _RUN_BITS) == 0


@contextmanager
def limit_marked(marker: int) -> Iterator[None]:
    """Whatever we start meanwhile carries the marker, in whichever thread: nothing else must be started."""
    before = resource.getrlimit(_LIMIT)
    _set_limit(marker, before[1])
    try:
        yield
    finally:
        _set_limit(*before)


def _set_limit(soft: int, hard: int) -> None:
    with suppress(ValueError, OSError):  # somebody has limited us: what we start is recognised by its other marks
        resource.setrlimit(_LIMIT, (soft, hard))


def _digest(text: str, bits: int) -> int:
    found = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(found) % (1 << bits)
