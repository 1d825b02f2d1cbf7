"""The log of each run: what agent and hooks said, bounded, out of the agent's reach."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

SIZE_LIMIT = 8 * 1024 * 1024
TAIL_SIZE = 64 * 1024
# How the names end of all that is kept of a run.
OF_A_RUN = (".log", ".log.1", ".tools", ".prompts")


def logs_directory(db_path: Path) -> Path:
    return db_path.with_suffix(".logs")


def archive_directory(db_path: Path) -> Path:
    return db_path.with_suffix(".archive")


def log_path(db_path: Path, run_id: str) -> Path:
    return logs_directory(db_path) / f"{run_id}.log"


def prune_logs(directory: Path, older_than_days: float, now: float, running: Collection[str]) -> None:
    """Delete the logs of runs that ended longer ago, and so of none that is `running`; what is not named like one
    stays."""
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        is_over = entry.name.endswith(OF_A_RUN) and entry.name.partition(".")[0] not in running
        with suppress(OSError):  # one that cannot be deleted keeps no other
            if not is_over or not entry.is_file(follow_symlinks=False):
                continue
            if entry.stat(follow_symlinks=False).st_mtime < now - older_than_days * 86_400:
                Path(entry.path).unlink()


def opened_to_append(path: Path, mode: int) -> int:
    """A file of a run, made if need be; its directory is there but for the first run."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, mode)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, mode)


def last_words(path: Path, source: str, count: int) -> str:
    """The last lines that one source said, for those who come after a crash; empty where there are none."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - TAIL_SIZE, 0))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    entries = [line.partition(" ")[2] for line in lines]
    said = [entry.removeprefix(f"{source}: ") for entry in entries if entry.startswith(f"{source}: ")]
    return "\n".join([line for line in said if line.strip()][-count:])


@lru_cache(maxsize=4)
def _stamp(second: int) -> str:
    """Agents say many lines in a second; the calendar is asked once for it."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class RunLog:
    """Appends lines and keeps the newest 8 to 16 MiB in two files. `problem` says that the disk refused some."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self.problem = ""

    def write(self, now: float, source: str, text: str) -> None:
        line = text.replace("\r", "\\r")
        data = f"{_stamp(int(now))} {source}: {line}\n".encode("utf-8", "replace")
        try:
            self._append(data)
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror}"

    def _append(self, data: bytes) -> None:
        if self._file is None:
            self._file = opened_to_append(self._path, 0o644)
            self._size = os.fstat(self._file).st_size
        if self._size + len(data) > SIZE_LIMIT:
            self.close()
            self._path.replace(self._path.with_suffix(".log.1"))
            self._file = opened_to_append(self._path, 0o644)
            self._size = 0
        self._size += os.write(self._file, data)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
