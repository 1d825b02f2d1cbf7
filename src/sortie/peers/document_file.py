"""The markdown file itself: read whole, written at its end, each time checked to be the file that has the name.

People and their editors write it too and know nothing of our lock. So what was written is looked at afterwards, and
a stamp says whether the file is still as we left it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time_ns

from msgspec import Struct

from ..errors import SortieError
from ..protocol.changing_places import Version, stamp_of, sync_directory, wait_for_writers
from .state_file import not_regular, open_careful, problem_of, write_all

LIMIT = 512 * 1024 * 1024
_BEGINNING = 8 * 1024
# A program that saves in place is let finish. One that keeps the file open must not stop us for ever.
WRITERS_PATIENCE = 0.5


class FileStamp(Struct, frozen=True, array_like=True):
    """What a stat shows; every edit changes it, because our writes leave a time between two ticks of the clock."""

    inode: int = 0
    size: int = -1
    modified_ns: int = 0
    changed_ns: int = 0


NO_FILE = FileStamp()


def stamp_from(status: os.stat_result) -> FileStamp:
    return FileStamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class End(Struct, frozen=True):
    """How a file ends and how its lines do: what has to be known to go on in its manner."""

    stamp: FileStamp
    in_midline: bool
    crlf: bool


class DocumentFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> FileStamp:
        """What stands at the name now; SortieError unless that is nothing, or a regular file of its own."""
        try:
            status = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return NO_FILE
        except OSError as error:
            raise problem_of(self.path, error) from error
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise not_regular(self.path)
        return stamp_from(status)

    def let_writers_finish(self) -> None:
        """Wait a little for a program that is in the middle of a save."""
        wait_for_writers(self.path, WRITERS_PATIENCE)

    def read(self) -> bytes:
        raw = self.version().raw
        assert raw is not None
        return raw

    def version(self) -> Version:
        """The whole content with the stamp that it had when the reading began."""
        with self._opened(os.O_RDONLY) as (descriptor, status):
            now = time_ns()
            if status.st_size > LIMIT:
                raise self._too_large()
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                raw = file.read(LIMIT + 1)
            if len(raw) > LIMIT:
                raise self._too_large()
            return Version(stamp_of(status, now), status, raw)

    def end(self) -> End:
        """Reads its beginning and its last byte only, when nobody is in the middle of a save."""
        self.let_writers_finish()
        with self._opened(os.O_RDONLY) as (descriptor, status):
            first_line, found, _ = os.pread(descriptor, _BEGINNING, 0).partition(b"\n")
            last = os.pread(descriptor, 1, status.st_size - 1) if status.st_size else b"\n"
            return End(stamp_from(status), last != b"\n", bool(found) and first_line.endswith(b"\r"))

    def write_at_end(self, data: bytes, offset: int) -> FileStamp | None:
        """Append durably; the stamp of the file, or None where it does not hold the data: somebody else wrote.

        `offset` is where the file ended when that was looked at. When it fails, what was written is cut off.
        """
        with self._opened(os.O_RDWR | os.O_APPEND) as (descriptor, _):
            try:
                write_all(descriptor, data)
                self._set_exact_time(descriptor)
                os.fdatasync(descriptor)
            except OSError as error:
                self._cut(descriptor, offset, data)
                raise problem_of(self.path, error) from error
            status = os.fstat(descriptor)
            places = (offset, status.st_size - len(data))
            whole = any(place >= 0 and os.pread(descriptor, len(data), place) == data for place in places)
        stamp = stamp_from(status)
        try:
            return stamp if whole and self.stamp() == stamp else None
        except SortieError:
            return None

    def part(self, offset: int, length: int) -> tuple[bytes, int]:
        """Some bytes of it, and its size."""
        with self._opened(os.O_RDONLY) as (descriptor, status):
            return os.pread(descriptor, length, offset), status.st_size

    def make_empty(self) -> None:
        """An empty file where there is none; one that is empty will do."""
        try:
            descriptor, _ = open_careful(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except SortieError:
            if self.stamp().size != 0:
                raise SortieError(f"{self.path} exists already.", fix="Use it, or move it away first.") from None
        else:
            os.close(descriptor)
            sync_directory(self.path.parent)

    @contextmanager
    def _opened(self, flags: int) -> Iterator[tuple[int, os.stat_result]]:
        try:
            descriptor, status = open_careful(self.path, flags)
        except FileNotFoundError as error:
            raise SortieError(
                f"{self.path} does not exist.", fix="Create it with `sortie peers init`, or correct the path."
            ) from error
        try:
            yield descriptor, status
        except OSError as error:
            raise problem_of(self.path, error) from error
        finally:
            os.close(descriptor)

    def _set_exact_time(self, descriptor: int) -> None:
        # A time between two ticks of the clock: an edit within the same tick has another. Only the owner may.
        with suppress(PermissionError):
            now = time_ns()
            os.utime(descriptor, ns=(now, now))

    def _cut(self, descriptor: int, offset: int, data: bytes) -> None:
        with suppress(OSError):
            size = os.fstat(descriptor).st_size
            if size > offset and data.startswith(os.pread(descriptor, size - offset, offset)):
                os.ftruncate(descriptor, offset)

    def _too_large(self) -> SortieError:
        return SortieError(
            f"{self.path} is larger than {LIMIT // 1024**2} MiB.", fix="Move old entries to an archive file."
        )
