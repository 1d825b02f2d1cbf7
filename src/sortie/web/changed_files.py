"""Changed files for pages that are shown again every few seconds: compared now and then, once for all readers.

Comparing asks git and reads every changed file. So what was found stands for a while, the longer the more it took,
and of several readers of the same directory one compares; the others get what was found before, or wait for it.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from msgspec import Struct

from ..hosts.local_host import NAME as LOCAL
from ..reports.changes import WorkspaceChanges, workspace_changes
from ..reports.run_detail import RunDetail
from .site import Site

MOST_KEPT = 16
STANDS_FOR = 4.0
# So many times as long as it took.
REST = 10.0


class Seen(Struct, frozen=True):
    """`at` is when the files were compared, `until` how long that stands by a clock that only goes on."""

    changes: WorkspaceChanges
    at: float
    until: float


class ChangedFiles:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._comparing: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def of(self, site: Site, run: RunDetail | None) -> Seen | None:
        """Of the directory of a run; None where it had none on this machine. Blocks."""
        if run is None or not run.workspace or run.host not in ("", LOCAL):
            return None
        with self._lock:
            seen = self._seen.get(run.run_id)
            turn = self._comparing.setdefault(run.run_id, threading.Lock())
        if seen and time.monotonic() < seen.until:
            return seen
        if not turn.acquire(blocking=seen is None):
            return seen
        try:
            # Another one may have done it while we waited.
            again = self._seen.get(run.run_id)
            if again and time.monotonic() < again.until:
                return again
            return self._compared(site, run)
        finally:
            turn.release()

    def _compared(self, site: Site, run: RunDetail) -> Seen:
        began, at = time.monotonic(), time.time()
        changes = workspace_changes(Path(run.workspace), since=run.started_at, hide=site.hide)
        took = time.monotonic() - began
        seen = Seen(changes, at, time.monotonic() + STANDS_FOR + REST * took)
        with self._lock:
            self._seen.pop(run.run_id, None)
            self._seen[run.run_id] = seen
            while len(self._seen) > MOST_KEPT:
                oldest = next(iter(self._seen))
                del self._seen[oldest]
                self._comparing.pop(oldest, None)
        return seen
