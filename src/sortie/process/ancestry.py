"""Whether a command was started by an agent: the marks that this process and its ancestors carry.

Everything that an orchestrator starts is marked, and so is all that starts in turn. A person's command has no mark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from .identity import RUN_MARK, STORE_MARK, is_of_store, limit_marker_of, mark_of
from .process_table import look_up

MOST_ANCESTORS = 256


class Marks(Struct, frozen=True):
    """What one process, this one or an ancestor, carries."""

    pid: int
    run_id: str
    store_id: str
    limit_marker: int

    @property
    def is_of_a_run(self) -> bool:
        return bool(self.run_id or self.limit_marker)


def marks_of_ancestry(pid: int) -> Iterator[Marks]:
    """This process first, then who started it, and so on."""
    for _ in range(MOST_ANCESTORS):
        yield Marks(pid, _mark(pid, RUN_MARK), _mark(pid, STORE_MARK), limit_marker_of(pid))
        process = look_up(pid)
        if process is None or process.ppid <= 0:
            return
        pid = process.ppid


def is_in_a_run_of(store_id: str) -> bool:
    """Whether an agent that works for this store started us, however far above."""
    return any(
        one.is_of_a_run and (one.store_id == store_id or is_of_store(one.limit_marker, store_id))
        for one in marks_of_ancestry(os.getpid())
    )


def _mark(pid: int, name: str) -> str:
    own = os.environ.get(name, "") if pid == os.getpid() else ""
    return own or mark_of(pid, name)
