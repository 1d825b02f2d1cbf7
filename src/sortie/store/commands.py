"""How a person's command reaches the orchestrator that owns the store: a row to be answered.

The command line and the dashboard are other processes; this row is the only thing that they write.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

from msgspec import Struct

from ..core.events import without_surrogates
from ..core.operator import Reply
from .connect import changing, connect_readonly

# For so many seconds whoever asked for a look can ask what became of that.
LOOKS_KNOWN_FOR = 60.0


class CommandRow(Struct, frozen=True):
    """A command that waits; `issue` is what the person typed, `text` what an answer says."""

    id: int
    verb: str
    issue: str
    text: str = ""


class CommandTold(Struct, frozen=True):
    """What is on record of a command; `reply` is None while it waits."""

    verb: str
    issue: str
    at: float
    reply: Reply | None


def add_commands(path: Path, verb: str, issues: Sequence[str], text: str = "") -> list[int]:
    """Leave commands for the orchestrator, running now or started later, all or none; answers their numbers."""
    said = without_surrogates(text)
    with changing(path) as db:
        return [_add(db, verb, issue, said) for issue in issues]


def ask_for_look(path: Path) -> bool:
    """Have the orchestrator look at its source now; False where that was asked for already and waits."""
    with closing(connect_readonly(path)) as db:
        if any(command.verb == "refresh" for command in pending_commands(db)):
            return False
    with changing(path) as db:
        # Webhooks ask without end, and nobody wants to know for long what became of it.
        db.execute("DELETE FROM commands WHERE verb = 'refresh' AND done_at < ?", (time.time() - LOOKS_KNOWN_FOR,))
        _add(db, "refresh", "", "")
    return True


def _add(db: Connection, verb: str, issue: str, text: str) -> int:
    sql = "INSERT INTO commands (at, verb, issue, text) VALUES (?, ?, ?, ?) RETURNING id"
    (number,) = db.execute(sql, (time.time(), verb, issue, text)).fetchone()
    return int(number)


def pending_commands(db: Connection) -> list[CommandRow]:
    rows = db.execute("SELECT id, verb, issue, text FROM commands WHERE done_at IS NULL ORDER BY id")
    return [CommandRow(*row) for row in rows]


def reply_to(db: Connection, command_id: int) -> Reply | None:
    """What became of a command, None while it waits."""
    row = db.execute(
        "SELECT ok, outcome FROM commands WHERE id = ? AND done_at IS NOT NULL", (command_id,)
    ).fetchone()
    return Reply(bool(row[0]), row[1]) if row else None


def command_told(db: Connection, command_id: int) -> CommandTold | None:
    """None where there is no such command."""
    row = db.execute("SELECT verb, issue, at FROM commands WHERE id = ?", (command_id,)).fetchone()
    if row is None:
        return None
    verb, issue, at = row
    return CommandTold(verb, issue, at, reply_to(db, command_id))
