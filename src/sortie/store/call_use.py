"""How much of the tracker's rate limit is used: one row without history, for commands that read only the store.

It follows from no event, because no decision depends on it: only the last values count, and their age.
"""

from __future__ import annotations

from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import astuple


class CallFigures(Struct, frozen=True, kw_only=True):
    """As they were at `as_of`: calls `made` in the last minute, of `per_minute` that we allow ourselves; by the
    count of the server, where it tells one, `remaining` of `limit` until `resets_at`. Until `held_until` nothing is
    asked."""

    as_of: float
    made: int
    per_minute: int
    limit: int | None = None
    remaining: int | None = None
    resets_at: float | None = None
    held_until: float | None = None


def write_call_figures(db: Connection, figures: CallFigures) -> None:
    """Inside the caller's transaction."""
    db.execute("INSERT OR REPLACE INTO call_use VALUES (1, ?, ?, ?, ?, ?, ?, ?)", astuple(figures))


def call_figures(db: Connection) -> CallFigures | None:
    row = db.execute("SELECT * FROM call_use").fetchone()
    if row is None:
        return None
    _, *values = row
    return CallFigures(**dict(zip(CallFigures.__struct_fields__, values, strict=True)))
