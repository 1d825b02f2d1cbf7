"""Opening the file: one way for the writer, one for readers; whose database it is, and its schema up to date."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ..errors import StoreError, StoreTooNew
from .schema import APPLICATION_ID, MIGRATIONS
from .sqlite_errors import ELSEWHERE, explain, explain_system, not_a_file

_BUSY_SECONDS = 5.0
_KEPT_WAL_BYTES = 16 * 1024 * 1024
_OWNER_ONLY = 0o600


def connect_writer(path: Path) -> sqlite3.Connection:
    """A connection that may change everything, durable at each commit; creates the file, for its owner only."""
    _ensure_private_file(path)
    connection = _connect(path, "rw")
    with _closed_on_failure(connection, path):
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(f"The file system of {path} cannot hold a write-ahead log.", fix=ELSEWHERE)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_KEPT_WAL_BYTES}")
    return connection


def connect_readonly(
    path: Path, warn: Callable[[str], None] = lambda _: None, *, may_copy: bool = True
) -> sqlite3.Connection:
    """A connection for looking, also while an orchestrator writes and after one died; the caller closes it.

    It works where nothing can be written, too; `warn` hears what cannot be read there. A store of an earlier
    version is looked at in a copy that is brought up to date: only whoever owns a store may change it. Where nobody
    `may_copy`, because it is looked at again and again, such a store is refused.
    """
    try:
        connection = _connect_complete(path, "ro")
    except StoreError as error:
        if not _needs_to_write(error, path):
            raise
        # SQLite wants a file beside a database with a log; without one, it can read the database alone.
        connection = _connect_complete(path, "ro&immutable=1")
        log = path.resolve().with_name(path.resolve().name + "-wal")
        if log.exists() and log.stat().st_size:
            warn(
                f"The last changes are missing: they are in {log}, and cannot be read where nothing can be written."
            )
    if schema_version(connection, path) < len(MIGRATIONS):
        if not may_copy:
            connection.close()
            raise _not_up_to_date(path)
        copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.backup(copy)
        connection.close()
        connection = copy
        migrate(connection, path)
    connection.execute("PRAGMA query_only = ON")
    # Bytes that are no text must not hide the rest of their row.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def connect_existing(path: Path) -> sqlite3.Connection:
    """A connection that may add to a complete store of exactly this version, whoever owns it."""
    connection = _connect_complete(path, "rw")
    with _closed_on_failure(connection, path):
        if schema_version(connection, path) < len(MIGRATIONS):
            raise _not_up_to_date(path)
    return connection


def _not_up_to_date(path: Path) -> StoreError:
    fix = "Start `sortie run` once, which brings it up to date."
    return StoreError(f"{path} is not up to date: an earlier Sortie wrote it.", fix=fix)


@contextmanager
def changing(path: Path) -> Iterator[sqlite3.Connection]:
    """One durable transaction beside whoever owns the store; raises `StoreError`."""
    with closing(connect_existing(path)) as connection:
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise explain(error, path) from error


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring it to this version's schema, each step whole or not at all.

    The caller holds the lock of the store, so nobody else does the same.
    """
    try:
        for version in range(schema_version(connection, path), len(MIGRATIONS)):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            connection.executescript(
                f"""
                BEGIN IMMEDIATE;
                PRAGMA application_id = {APPLICATION_ID};
                {MIGRATIONS[version]}
                INSERT INTO schema_migrations VALUES ({version + 1}, '{now}');
                COMMIT;
                """
            )
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise explain(error, path) from error


def _connect_complete(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to a store of this version or an earlier one; `mode` is SQLite's: ro or rw."""
    path = path.resolve()
    if not path.exists():
        raise StoreError(f"There is no store at {path} yet.", fix="Start `sortie run` first.")
    _require_regular(path)
    connection = _connect(path, mode)
    with _closed_on_failure(connection, path):
        if schema_version(connection, path) == 0:
            raise StoreError(f"{path} is not complete.", fix="Start `sortie run` once, which completes it.")
    return connection


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """How many migrations the file has seen; refuses other programs' files and later versions' ones."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if application or tables:
            raise StoreError(f"{path} is another program's database.", fix=ELSEWHERE)
        return 0
    (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
    if version > len(MIGRATIONS):
        raise StoreTooNew(
            f"{path} was written by a later Sortie (its schema is {version}, this one knows {len(MIGRATIONS)}).",
            fix="Upgrade Sortie, or set db_path to another file.",
        )
    return int(version)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        # Agents fill /tmp: nothing of ours may depend on a disk that the store is not on.
        connection.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error as error:
        raise explain(error, path) from error
    return connection


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, StoreError) as error:
        connection.close()
        if isinstance(error, StoreError):
            raise
        raise explain(error, path) from error


def _ensure_private_file(path: Path) -> None:
    try:
        # An existing file is never opened here: closing it would drop the locks SQLite holds on it in this process.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNER_ONLY))
            return
        _require_regular(path)
        # SQLite would open it for reading only, and fail at the first change.
        if not os.access(path, os.R_OK | os.W_OK):
            fix = "Make it readable and writable, or set db_path to another file."
            raise StoreError(f"{path} cannot be written.", fix=fix)
        if path.stat().st_mode & 0o077:
            path.chmod(_OWNER_ONLY)
    except OSError as error:
        raise explain_system(error, path) from error


def _require_regular(database: Path) -> None:
    """SQLite opens whatever stands at these names, and waits for ever for the other end of a FIFO."""
    for name in ("", "-journal", "-wal", "-shm"):
        path = database.with_name(database.name + name)
        try:
            is_regular = stat.S_ISREG(path.stat().st_mode)
        except PermissionError:
            raise
        except OSError:
            continue  # there is none, or it went this moment with the last connection
        if not is_regular:
            raise not_a_file(path)


def _needs_to_write(error: StoreError, path: Path) -> bool:
    code = getattr(error.__cause__, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return (
        code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        and os.access(path, os.R_OK)
        and not os.access(path.resolve().parent, os.W_OK)
    )
