"""The event log as frames of the stream: the newest events from memory, earlier ones from the store."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, closing

from msgspec import Struct

from ..core.events import kind_of
from ..core.narrate import narrate
from ..errors import StoreLost
from ..store.connect import connect_readonly
from ..store.queries import LoggedEvent, events, last_seq
from .heartbeat import frame
from .site import Site

# Read at once; so many a slow reader may be behind before the store is asked.
BATCH = 200
KEPT = 1000
LONGEST_TEXT = 2000


class Entry(Struct, frozen=True):
    seq: int
    issue_id: str
    frame: bytes


class LogWindow:
    """Opened by whoever makes it. `newest`, `look` and `read` block and may be called from different threads;
    `extend` and `after` belong to one event loop."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._path = site.database
        self._using = threading.Lock()
        self._file = self._path.stat()
        self._version = -1
        self._recent: deque[Entry] = deque(maxlen=KEPT)
        with ExitStack() as on_failure:
            self._db = on_failure.enter_context(closing(connect_readonly(self._path, may_copy=False)))
            self.last = self.newest()
            self._complete_after = self.last
            on_failure.pop_all()

    def newest(self) -> int:
        """The last number in the store now; 0 where it has none."""
        with self._using:
            return last_seq(self._db)

    def look(self) -> list[Entry]:
        """What was committed since the last look, at most `BATCH`; raises where the store is not there any more."""
        self._require_same_file()
        with self._using:
            (version,) = self._db.execute("PRAGMA data_version").fetchone()
            if version == self._version:
                return []
            rows = events(self._db, after_seq=self.last, limit=BATCH)
        if len(rows) < BATCH:
            self._version = version
        return self._entries(rows)

    def extend(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if len(self._recent) == KEPT:
                self._complete_after = self._recent[0].seq
            self._recent.append(entry)
            self.last = entry.seq

    def after(self, seq: int) -> list[Entry] | None:
        """All that came after this number; None where memory does not reach back so far."""
        if seq < self._complete_after:
            return None
        found: list[Entry] = []
        for entry in reversed(self._recent):
            if entry.seq <= seq:
                break
            found.append(entry)
        return found[::-1]

    def read(self, after: int, issue_id: str | None) -> tuple[list[Entry], int]:
        """The next ones from the store, no further than `last`, and up to which number that is all."""
        read_to = self.last
        with self._using:
            rows = events(self._db, issue_id=issue_id, after_seq=after, limit=BATCH)
        if len(rows) == BATCH:
            read_to = min(rows[-1].seq, read_to)
        return self._entries([row for row in rows if row.seq <= read_to]), read_to

    def close(self) -> None:
        with self._using:
            self._db.close()

    def _require_same_file(self) -> None:
        try:
            found: os.stat_result | None = self._path.stat()
        except FileNotFoundError:
            found = None
        if found is None or not os.path.samestat(found, self._file):
            what = "deleted" if found is None else "replaced by another file"
            raise StoreLost(f"The store was {what} while it was being read.", fix="Load the page again.")

    def _entries(self, rows: Sequence[LoggedEvent]) -> list[Entry]:
        return [Entry(row.seq, row.event.issue_id, self._frame(row)) for row in rows]

    def _frame(self, row: LoggedEvent) -> bytes:
        event = row.event
        change = {
            "seq": row.seq,
            "kind": kind_of(event),
            "issue_id": event.issue_id,
            "run_id": event.run_id,
            "at": event.at,
            "text": self._site.hide(narrate(event).text)[:LONGEST_TEXT],
        }
        return frame("change", change, row.seq)
