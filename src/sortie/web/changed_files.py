"""Cache of the changed files of workspaces, for pages that refresh every few seconds.

A comparison runs git and reads every changed file. So its result is kept for a while, longer if it took longer, and
shared by all readers. It runs in threads of its own: a reader waits a moment for it, then gets the last result, or
the answer that there is none yet.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ..core.redact import Hide
from ..hosts.local_host import NAME as LOCAL
from ..reports.changes import WorkspaceChanges, workspace_changes
from ..reports.run_detail import RunDetail

MOST_KEPT = 16
STANDS_FOR = 4.0
# So many times as long as it took.
REST = 10.0
AT_ONCE = 2
# Comparisons that are going on, or wait for their turn; who asks for another one asks again.
MOST_AWAITED = 16
# A reader is one of the few threads in which everything is reported.
PATIENCE = 1.0
NOT_YET = "The files are being compared; ask again in a moment."


class Seen(Struct, frozen=True):
    """`at` is when the files were compared, `until` how long that stands by a clock that only goes on."""

    changes: WorkspaceChanges
    at: float
    until: float


class ChangedFiles:
    """Safe to use from several threads."""

    def __init__(
        self, hide: Hide, *, patience: float = PATIENCE, stands_for: float = STANDS_FOR, rest: float = REST
    ) -> None:
        self._hide = hide
        self._patience = patience
        self._stands_for = stands_for
        self._rest = rest
        self._seen: dict[str, Seen] = {}
        self._coming: dict[str, Future[Seen]] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(AT_ONCE, "changed files")

    def of(self, run: RunDetail | None) -> Seen | None:
        """Of the directory of a run; None where it had none on this machine. Blocks for a moment."""
        if run is None or not run.workspace or run.host not in ("", LOCAL):
            return None
        with self._lock:
            seen = self._seen.get(run.run_id)
            if seen and time.monotonic() < seen.until:
                return seen
            coming = self._coming.get(run.run_id)
            if coming is None and len(self._coming) < MOST_AWAITED:
                coming = self._coming[run.run_id] = self._threads.submit(self._compared, run)
        if coming is not None:
            with suppress(TimeoutError):
                return coming.result(self._patience)
        not_yet = WorkspaceChanges(kind="unknown", workspace=run.workspace, problem=NOT_YET)
        return seen or Seen(not_yet, time.time(), 0.0)

    def _compared(self, run: RunDetail) -> Seen:
        began, at = time.monotonic(), time.time()
        try:
            changes = workspace_changes(Path(run.workspace), since=run.started_at, hide=self._hide)
            took = time.monotonic() - began
            seen = Seen(changes, at, time.monotonic() + self._stands_for + self._rest * took)
            with self._lock:
                self._seen.pop(run.run_id, None)
                self._seen[run.run_id] = seen
                while len(self._seen) > MOST_KEPT:
                    del self._seen[next(iter(self._seen))]
        finally:
            with self._lock:
                del self._coming[run.run_id]
        return seen
