"""The `live` and `stale` messages of the stream: once a second the service's report, or since when there is
none."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import SortieError
from .site import Site

if TYPE_CHECKING:
    from ..engine.report import LiveReport, RunReport

EVERY = 1.0
# So long nothing is said before a comment shows that the connection is alive.
SILENCE = 15.0
MOST_RUNS = 100
LONGEST_LINE = 300

_COMMENT = b": still here\n\n"


def frame(event: str, data: Any, seq: int | None = None) -> bytes:
    """One message of the stream. JSON has no line ends of its own, so no text can begin a message."""
    number = b"" if seq is None else b"id: %d\n" % seq
    return number + b"event: %s\ndata: %s\n\n" % (event.encode("ascii"), msgspec.json.encode(data))


class Heartbeat:
    """`standing` is how the service stands, for whoever joins; `last` is the beat that everybody is to hear, and
    `beats` counts them."""

    def __init__(self, site: Site, silence: float = SILENCE) -> None:
        self._site = site
        self._silence = silence
        self._next = 0.0
        self._said_at = time.monotonic()
        self.standing = b""
        self.last = b""
        self.beats = 0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def beat(self) -> bool:
        """Look how the service stands; answers whether there is something to tell. Blocks for a moment."""
        self._next = time.monotonic() + EVERY
        report = self._site.live.now()
        if report is not None and self._site.is_served:
            self.standing, said = frame("live", self._summary(report)), True
        elif (since := self._stale_since()) is not None:
            stale = frame("stale", {"since": since})
            self.standing, said = stale, stale != self.standing
        else:
            self.standing, said = b"", False
        if said:
            self.last = self.standing
        elif time.monotonic() - self._said_at >= self._silence:
            self.last, said = _COMMENT, True
        if said:
            self.beats += 1
            self._said_at = time.monotonic()
        return said

    def _stale_since(self) -> float | None:
        """None where nothing tells that the service is not well: it may speak to somebody else, or not yet."""
        site = self._site
        if site.live.heard_at:
            return site.live.heard_at
        if not site.is_served:
            return self._last_event_at()
        return site.started_at if not site.read_only and not site.is_young else None

    def _last_event_at(self) -> float:
        with suppress(SortieError, sqlite3.Error), self._site.looking() as db:
            row = db.execute("SELECT at FROM events ORDER BY seq DESC LIMIT 1").fetchone()
            return float(row[0]) if row else self._site.started_at
        return self._site.started_at

    def _summary(self, report: LiveReport) -> dict[str, Any]:
        return {
            "now": report.now,
            "draining": report.draining,
            "counts": {
                "running": len(report.running),
                "waiting": report.waiting_count,
                "parked": report.parked_count,
                "ready": report.ready,
                "slots": report.slots,
            },
            "today": report.today,
            "running": [self._run(run) for run in report.running[:MOST_RUNS]],
        }

    def _run(self, run: RunReport) -> dict[str, Any]:
        return {
            "issue_id": run.issue_id,
            "identifier": run.identifier,
            "run_id": run.run_id,
            "turn": run.turn,
            "max_turns": run.max_turns,
            "seconds": round(run.seconds, 1),
            "quiet_seconds": round(run.quiet_seconds, 1),
            "tokens": run.usage.total,
            "cost_usd": run.usage.cost_usd,
            "last_line": self._site.hide(run.last_line)[:LONGEST_LINE],
        }
