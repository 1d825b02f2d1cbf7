"""`workspace_history`: how earlier runs of this issue ended, from the store, which is opened for reading only."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

MOST = 10

_FIELDS = ("attempt", "agent_adapter", "started_at", "completed_at", "status", "error")
_QUERY = f"SELECT {', '.join(_FIELDS)} FROM run_history WHERE issue_id = ? ORDER BY id DESC LIMIT {MOST}"

# A reader waits for nobody but a process that repairs the file after a crash.
_BUSY_SECONDS = 1.0


def problem_with(path: str) -> str:
    """Why the database cannot be read, or an empty string."""
    try:
        connection = _connect(path)
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return str(error)
    return ""


def run_history(path: str, issue_id: str) -> dict[str, Any]:
    """The answer of the tool."""
    try:
        connection = _connect(path)
        try:
            rows = connection.execute(_QUERY, (issue_id,)).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return {"error": f"query failed: {error}"}
    return {"issue_id": issue_id, "entries": [dict(zip(_FIELDS, row, strict=True)) for row in rows]}


def _connect(path: str) -> sqlite3.Connection:
    # SQLite opens whatever stands at these names, and waits for ever for the other end of a FIFO.
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        if os.path.exists(name) and not os.path.isfile(name):  # noqa: PTH110, PTH113 - pathlib is slow to load
            raise sqlite3.OperationalError(f"{name} is not a regular file")
    # Only these three mean something else in SQLite's form of a file URI.
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(f"file:{name}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
