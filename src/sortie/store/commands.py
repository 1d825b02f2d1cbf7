"""How a person's command reaches the orchestrator that owns the store: a row to be answered.

`unpark`, `stop` and `retry` run in processes of their own; this row is the one thing they may write.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

from msgspec import Struct

from ..core.operator import Reply
from .connect import connect_existing
from .sqlite_errors import explain


class CommandRow(Struct, frozen=True):
    """A command that waits; `issue` is what the person typed."""

    id: int
    verb: str
    issue: str


def add_commands(path: Path, verb: str, issues: Sequence[str]) -> list[int]:
    """Leave commands for the orchestrator, running now or started later, all or none; answers their numbers."""
    now = time.time()
    with closing(connect_existing(path)) as db:
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            ids = [
                db.execute(
                    "INSERT INTO commands (at, verb, issue) VALUES (?, ?, ?) RETURNING id", (now, verb, issue)
                ).fetchone()[0]
                for issue in issues
            ]
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise explain(error, path) from error
    return ids


def pending_commands(db: Connection) -> list[CommandRow]:
    rows = db.execute("SELECT id, verb, issue FROM commands WHERE done_at IS NULL ORDER BY id")
    return [CommandRow(*row) for row in rows]


def reply_to(db: Connection, command_id: int) -> Reply | None:
    """What became of a command, None while it waits."""
    row = db.execute(
        "SELECT ok, outcome FROM commands WHERE id = ? AND done_at IS NOT NULL", (command_id,)
    ).fetchone()
    return Reply(bool(row[0]), row[1]) if row else None
