"""What SQLite's and the system's failures mean to a person: one sentence, and what to do about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError

ELSEWHERE = "Set db_path in the workflow to another file."

_DAMAGED = (
    "{path} is damaged ({error}).",
    "Restore it from a copy, or move it away to begin with an empty store.",
)

# By primary result code: the extended code keeps it in its low byte.
_MEANINGS = {
    sqlite3.SQLITE_FULL: ("The disk is full: {path} could not be written.", "Free some space."),
    sqlite3.SQLITE_IOERR: (
        "{path} could not be read or written ({name}).",
        "Check the disk and its free space.",
    ),
    sqlite3.SQLITE_READONLY: (
        "{path} cannot be written.",
        "Make the file and its directory writable, or set db_path to another place.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "{path} cannot be opened.",
        "Make the file and its directory readable and writable, or set db_path to another place.",
    ),
    sqlite3.SQLITE_NOTADB: ("{path} is not a database.", ELSEWHERE),
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # what we ask is right, so a table or a column of ours is not there any more
    sqlite3.SQLITE_BUSY: (
        "{path} is kept busy by another program.",
        "Close the program that has it open, then try again.",
    ),
    sqlite3.SQLITE_CONSTRAINT: ("The change contradicts what {path} holds ({error}).", ""),
}
_UNKNOWN = ("{path} failed: {error} ({name}).", "")


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """The error to raise in place of one of SQLite's, which is its cause."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    message, fix = _MEANINGS.get(code & 0xFF, _UNKNOWN)
    explained = StoreError(message.format(path=path, name=name, error=error), fix=fix)
    explained.__cause__ = error
    return explained


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What SQLite raises inside comes out as one of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error


def is_ruined(error: StoreError) -> bool:
    """Whether the database itself is broken, so that trying again helps nobody."""
    code = getattr(error.__cause__, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def explain_system(error: OSError, path: Path) -> StoreError:
    """The error to raise in place of one of the operating system's."""
    reason = (error.strerror or str(error)).lower()
    return StoreError(f"{path} cannot be used: {reason}.", fix="Fix that, or set db_path to another place.")


def not_a_file(path: Path) -> StoreError:
    return StoreError(f"{path} is not a regular file.", fix="Move away what stands there; it is made anew.")
