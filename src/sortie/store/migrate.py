"""Brings a database to this version's schema, each step whole or not at all."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from .connect import schema_version
from .schema import APPLICATION_ID, MIGRATIONS
from .sqlite_errors import explain


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Apply what is missing. The caller holds the lock of the store, so nobody else does the same."""
    try:
        for version in range(schema_version(connection, path), len(MIGRATIONS)):
            _step(connection, version + 1, MIGRATIONS[version])
    except sqlite3.Error as error:
        raise explain(error, path) from error


def _step(connection: sqlite3.Connection, version: int, statements: str) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        connection.executescript(
            f"""
            BEGIN IMMEDIATE;
            PRAGMA application_id = {APPLICATION_ID};
            {statements}
            INSERT INTO schema_migrations VALUES ({version}, '{now}');
            COMMIT;
            """
        )
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
