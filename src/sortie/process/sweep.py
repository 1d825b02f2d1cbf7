"""Ending processes that belong to us: politely, then by force, again and again until none is left.

A signal goes only to a process whose start time was compared while a pidfd held it, never to a bare number.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from .identity import (
    RUN_MARK,
    STORE_MARK,
    WORKSPACE_MARK,
    ProcessIdentity,
    boot_id,
    is_of_store,
    limit_marker,
    limit_marker_of,
    mark_of,
    start_ticks,
)
from .process_table import Process, ProcessTree, snapshot

_FORCE_FOR = 5.0
_FORCE_ROUND = 0.5


class EndedProcess(Struct, frozen=True):
    """A process that had outlived its orchestrator; `run_id` is empty where it carried no mark."""

    pid: int
    run_id: str


async def end_orphans(
    store_id: str,
    known: Collection[ProcessIdentity],
    grace: float = 2.0,
    root: Path | None = None,
    spared: Collection[str] = (),
) -> list[EndedProcess]:
    """End what an earlier orchestrator of this store left behind.

    Orphans are found by the store's mark in their environment, by the marker in their limits, and by the recorded
    identities in `known`. Whoever holds the `root` of workspaces names it: what works there for another store, one
    that was deleted, is an orphan too. A number that now belongs to somebody else is left alone, and so are we, our
    ancestors, and the runs whose ids are `spared`.
    """
    tree = ProcessTree()
    ended: dict[int, EndedProcess] = {}
    recorded = {(one.pid, one.start_ticks) for one in known if one.boot_id == boot_id()}
    spared_markers = {limit_marker(store_id, run_id) for run_id in spared}

    def is_orphan(process: Process) -> bool:
        if (process.pid, process.start_ticks) in recorded or _is_marked(process.pid, store_id, root, spared):
            return True
        marker = limit_marker_of(process.pid)
        return marker not in spared_markers and is_of_store(marker, store_id)

    def living() -> list[Process]:
        table = snapshot()
        pid = os.getpid()
        while pid in table:  # neither we nor our ancestors are orphans
            pid = table.pop(pid).ppid
        found = tree.living(table, filter(is_orphan, table.values()))
        for process in found:
            if process.pid not in ended:
                ended[process.pid] = EndedProcess(process.pid, mark_of(process.pid, RUN_MARK))
        return found

    survivors = await end_all(living, grace)
    return [one for pid, one in ended.items() if pid not in {p.pid for p in survivors}]


async def end_all(living: Callable[[], list[Process]], grace: float) -> list[Process]:
    """Ask for SIGTERM, after `grace` seconds force with SIGKILL, until `living` names nobody.

    It is asked again after each round, because the dying start others. Returns who could not be ended,
    which is only ever a process that the kernel will not kill or will not let us signal.
    """
    patience = anyio.current_time() + grace
    give_up = patience + _FORCE_FOR
    # Asked twice before it is believed: a process that was born and orphaned during one scan is in the next.
    while (found := living() or living()) and anyio.current_time() < give_up:
        polite = anyio.current_time() < patience
        until = patience if polite else anyio.current_time() + _FORCE_ROUND
        await _signal_and_wait(found, signal.SIGTERM if polite else signal.SIGKILL, until)
    return found


async def _signal_and_wait(processes: list[Process], number: signal.Signals, until: float) -> None:
    await checkpoint()  # nobody may be left to wait for
    with ExitStack() as stack, anyio.move_on_at(until):
        handles = []
        for process in processes:
            with suppress(ProcessLookupError):  # it is gone
                handle = os.pidfd_open(process.pid)
                stack.callback(os.close, handle)
                if start_ticks(process.pid) == process.start_ticks:
                    handles.append(handle)
        for handle in handles:
            # It may have ended by itself, or changed its user: then the caller hears of it as a survivor.
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, number)
        for handle in handles:
            await anyio.wait_readable(handle)


def _is_marked(pid: int, store_id: str, root: Path | None, spared: Collection[str]) -> bool:
    mark = mark_of(pid, STORE_MARK)
    if not mark or (spared and mark_of(pid, RUN_MARK) in spared):
        return False
    if mark == store_id:
        return True
    workspace = Path(mark_of(pid, WORKSPACE_MARK))
    return root in (workspace, workspace.parent)
