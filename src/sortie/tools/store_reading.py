"""What a tool server reads of its service's store, which it opens for reading only, and never waits for long."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Any

# A reader waits for nobody but a process that repairs the file after a crash.
_BUSY_SECONDS = 1.0


def problem_with(path: str) -> str:
    """Why the database cannot be read, or an empty string."""
    return rows_of(path, "PRAGMA schema_version")[1]


def rows_of(path: str, query: str, *values: str | float) -> tuple[list[Any], str]:
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
