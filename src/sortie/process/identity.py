"""Who a process is, beyond its number: pids are reused, a pid with its start time and boot is not."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

# In the environment of everything we start, and inherited by everything that starts in turn.
STORE_MARK = "SORTIE_STORE_ID"
RUN_MARK = "SORTIE_RUN_ID"
WORKSPACE_MARK = "SORTIE_WORKSPACE"

_START_TICKS = 19


class Identity(Struct, frozen=True):
    pid: int
    start_ticks: int
    boot_id: str


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def identify(pid: int) -> Identity | None:
    """The identity of a process that exists now, zombies included; None if there is none."""
    ticks = start_ticks(pid)
    return None if ticks is None else Identity(pid, ticks, boot_id())


def is_same(identity: Identity) -> bool:
    """Whether the process of this identity, and not a later one with its number, still exists."""
    return identity.boot_id == boot_id() and start_ticks(identity.pid) == identity.start_ticks


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
