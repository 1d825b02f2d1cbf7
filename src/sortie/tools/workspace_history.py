"""`workspace_history`: how earlier runs of this issue ended, from the store, which is opened for reading only."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Any

MOST = 10

_FIELDS = ("attempt", "agent_adapter", "started_at", "completed_at", "status", "error")
_QUERY = f"SELECT {', '.join(_FIELDS)} FROM run_history WHERE issue_id = ? ORDER BY id DESC LIMIT {MOST}"

# A reader waits for nobody but a process that repairs the file after a crash.
_BUSY_SECONDS = 1.0


def run_history(path: str, issue_id: str) -> dict[str, Any]:
    """The answer of the tool."""
    rows, problem = _query(path, _QUERY, issue_id)
    if problem:
        return {"error": f"query failed: {problem}"}
    return {"issue_id": issue_id, "entries": [dict(zip(_FIELDS, row, strict=True)) for row in rows]}


def problem_with(path: str) -> str:
    """Why the database cannot be read, or an empty string."""
    return _query(path, "PRAGMA schema_version")[1]


def _query(path: str, query: str, *values: str) -> tuple[list[Any], str]:
    """The rows, or why there are none."""
    # SQLite opens whatever stands at these names, and waits for ever for the other end of a FIFO.
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        if os.path.exists(name) and not os.path.isfile(name):  # noqa: PTH110, PTH113 - pathlib is slow to load
            return [], f"{name} is not a regular file"
    # Only these three mean something else in SQLite's form of a file URI.
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        with closing(sqlite3.connect(f"file:{name}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as connection:
            return connection.execute(query, values).fetchall(), ""
    except sqlite3.Error as error:
        return [], str(error) or type(error).__name__
