"""Whether the files that the store holds open are still those at their paths, and a copy of it where they are not.

A file that was deleted or replaced under us lives on as long as we have it open: writing goes on without an error,
and all of it is gone with our process. Nobody but us can notice, and nobody but us can save it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from ..errors import StoreLost
from .lock import lock_path

# Beside the database, by SQLite; a part that is not there yet when the store is opened is not missed later.
_PARTS = ("-wal", "-shm")

_KINDS = {
    stat.S_IFREG: "another file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_AGAIN = "then start it again"


class OpenFiles:
    """Made right after the files were opened, while nobody has had a reason to touch them."""

    def __init__(self, database: Path) -> None:
        self._database = database
        parts = [database.with_name(database.name + part) for part in _PARTS]
        self._opened = {path: status for path in (database, *parts, lock_path(database)) if (status := _look(path))}

    def loss(self) -> str:
        """What happened to the first of them that is not there any more, or an empty string. Costs a few stats."""
        for path, opened in self._opened.items():
            found = _look(path)
            if found is None:
                moved = self._moved_to(opened)
                return f"{path} was moved to {moved}" if moved else f"{path} was deleted"
            if not os.path.samestat(found, opened):
                return f"{path} was replaced by {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}"
            # It only ever grows: nothing is removed from the log of events.
            if path == self._database and found.st_size < opened.st_size:
                return f"{path} was cut short"
        return ""

    def explain(self, loss: str, db: sqlite3.Connection) -> StoreLost:
        """The error to end with; where the database is gone, everything it held is in a copy first."""
        message = f"The service ended because {loss} while it was in use."
        if not loss.startswith(f"{self._database} "):
            fix = f"Nothing that it held is lost. Find out who did that, {_AGAIN}."
        elif (moved := self._moved_to(self._opened[self._database])) not in (None, self._database):
            fix = f"Move {moved} back, {_AGAIN}."
        else:
            fix = _rescued(db, self._database)
        return StoreLost(message, fix=fix)

    def _moved_to(self, opened: os.stat_result) -> Path | None:
        """The kernel knows the present name of what we have open; a file that was deleted has none."""
        for entry in Path("/proc/self/fd").iterdir():
            try:
                if os.path.samestat(entry.stat(), opened):
                    name = entry.readlink()
                    return name if os.path.samestat(name.lstat(), opened) else None
            except OSError:
                continue
        return None


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _rescued(db: sqlite3.Connection, database: Path) -> str:
    """Copy all of it to a file beside the path, or as near as can be written; the answer is what to do next."""
    name = f"{database.name}.rescued-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"
    problem = ""
    for directory in database.parents:
        copy = directory / name
        try:
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as error:
            problem = problem or f"{copy}: {error.strerror}"
            continue
        try:
            with closing(sqlite3.connect(copy)) as target:
                db.backup(target)
        except sqlite3.Error as error:
            copy.unlink()
            problem = str(error)
            break
        return f"All that it held is in {copy}: move that to {database}{_stale(database)}, {_AGAIN}."
    return (
        f"What it held could not be saved ({problem}). "
        f"Restore {database} from a copy of your own{_stale(database)}, {_AGAIN}."
    )


def _stale(database: Path) -> str:
    """A log that belongs to the old file would be taken for one of the new."""
    left = [str(path) for part in _PARTS if (path := database.with_name(database.name + part)).exists()]
    return f" and remove {' and '.join(left)}" if left else ""
