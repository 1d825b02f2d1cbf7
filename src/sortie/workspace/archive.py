"""Removing a workspace: first a complete archive, durable on disk, and only then the removal.

Untracked files, links and empty directories are kept; holes in files stay holes. What cannot be archived
(FIFOs, sockets, devices, files we may not read) is listed in `<key>.not-archived.txt` in the archive.
Archives may hold secrets that an agent was given, so only their owner can read them. The files of our own sessions,
which may hold the tracker's key, are left out.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import secrets
import stat
import tarfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import WorkspaceError
from ..protocol.safefiles import UnsafeFile, open_directory, open_regular, remove_tree
from ..protocol.session_files import is_session_file
from .place import workspace_error

_TIME = "%Y%m%dT%H%M%SZ"
_OURS = re.compile(r".+-(\d{8}T\d{6}Z)(-\d+)?\.tar\.gz(\.[0-9a-f]{16}\.tmp)?")
_HOLES_WORTH_KEEPING = 1 << 20
_CHUNK = 1 << 18
_BLOCK = 512

_Path = tuple[str, ...]

# The entry vanished, changed into something else, or is closed to us: a note for people, no reason to fail.
_UNREADABLE = (PermissionError, FileNotFoundError, UnsafeFile)


def archive_and_remove(root: Path, key: str, archive_dir: Path, name: str) -> Path | None:
    """Archive a workspace as `<key>-<time>.tar.gz`, then remove it. None if there is none. Blocks; use a thread.

    When archiving fails, nothing is removed. No archive is ever overwritten. `name`, the issue's own, is kept in
    the archive's comment, because a key does not always show it.
    """
    workspace = root / key
    if not os.path.lexists(workspace):
        return None
    try:
        with open_directory(root.resolve(strict=True)) as root_fd:
            archive = _archive(root_fd, key, archive_dir, f"Workspace of {name}")
            _remove(root_fd, key, workspace, archive)
            return archive
    except (OSError, tarfile.TarError) as error:
        message = f"The workspace {workspace} stays, because it could not be archived in {archive_dir}"
        raise workspace_error(message, error) from error


def prune(archive_dir: Path, older_than_days: float, now: float) -> list[Path]:
    """Delete archives made longer ago, and what interrupted ones left; files not named by us stay."""
    limit = (datetime.fromtimestamp(now, UTC) - timedelta(days=older_than_days)).strftime(_TIME)
    removed = []
    for path in sorted(archive_dir.iterdir()) if archive_dir.is_dir() else ():
        ours = _OURS.fullmatch(path.name)
        if ours and ours[1] < limit:
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def _remove(root_fd: int, key: str, workspace: Path, archive: Path) -> None:
    try:
        remove_tree(root_fd, key)
    except OSError as error:
        raise WorkspaceError(
            f"The workspace {workspace} is archived in {archive} but could not be removed: {error}.",
            fix="Remove the directory by hand.",
        ) from error


def _archive(root_fd: int, key: str, archive_dir: Path, comment: str) -> Path:
    archive_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{key}-{datetime.now(UTC).strftime(_TIME)}"
    with open_directory(archive_dir.resolve(strict=True)) as archives:
        temporary = f".{name}.tar.gz.{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=archives)
        try:
            with os.fdopen(descriptor, "wb") as file:
                with _compressed(file, comment) as tar:
                    _add_tree(tar, root_fd, key)
                file.flush()
                os.fsync(descriptor)
            target = _unused(archive_dir, name)
            os.rename(temporary, target.name, src_dir_fd=archives, dst_dir_fd=archives)
        except BaseException:
            os.unlink(temporary, dir_fd=archives)
            raise
        os.fsync(archives)
        return target


def _compressed(file: BinaryIO, comment: str) -> tarfile.TarFile:
    headers = {"comment": comment.encode("utf-8", "backslashreplace").decode("utf-8")}
    return tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=6, pax_headers=headers)


def _unused(archive_dir: Path, name: str) -> Path:
    suffixes = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    paths = (archive_dir / f"{name}{suffix}.tar.gz" for suffix in suffixes)
    return next(path for path in paths if not path.exists())


def _add_tree(tar: tarfile.TarFile, root_fd: int, key: str) -> None:
    """Depth first, each directory just before what is in it: programs that extract rely on that order."""
    skipped: list[str] = []
    pending: list[tuple[_Path, os.stat_result]] = [((key,), os.stat(key, dir_fd=root_fd, follow_symlinks=False))]
    while pending:
        path, found = pending.pop()
        tar.addfile(_member(path, found, tarfile.DIRTYPE))
        try:
            with open_directory(root_fd, *path) as directory:
                pending += _add_entries(tar, directory, path, skipped)
        except _UNREADABLE as error:
            if path == (key,):
                raise
            skipped.append(_note(path, error.strerror))
    if skipped:
        _add_notes(tar, f"{key}.not-archived.txt", skipped)


def _add_entries(
    tar: tarfile.TarFile, directory: int, path: _Path, skipped: list[str]
) -> list[tuple[_Path, os.stat_result]]:
    """Add everything in one directory but the directories, which are returned."""
    inner = []
    for name in sorted(os.listdir(directory)):
        entry = (*path, name)
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                inner.append((entry, found))
            elif stat.S_ISLNK(found.st_mode):
                link = _member(entry, found, tarfile.SYMTYPE)
                link.linkname = os.readlink(name, dir_fd=directory)
                tar.addfile(link)
            elif stat.S_ISREG(found.st_mode) and is_session_file(entry[1:]):
                continue  # ours, worth nothing without its session, and it may hold credentials
            elif stat.S_ISREG(found.st_mode):
                with open_regular(directory, name) as descriptor:
                    _add_file(tar, entry, descriptor)
            else:
                skipped.append(_note(entry, "not a file, directory or link"))
        except _UNREADABLE as error:
            skipped.append(_note(entry, error.strerror))
    return inner


def _add_file(tar: tarfile.TarFile, path: _Path, descriptor: int) -> None:
    found = os.fstat(descriptor)
    member = _member(path, found, tarfile.REGTYPE)
    if found.st_size - found.st_blocks * 512 >= _HOLES_WORTH_KEEPING:
        content: Any = _leave_out_holes(member, descriptor, found.st_size)
    else:
        member.size = found.st_size
        content = os.fdopen(os.dup(descriptor), "rb")
    with content:
        tar.addfile(member, content)


def _leave_out_holes(member: tarfile.TarInfo, descriptor: int, size: int) -> io.BufferedReader:
    """Turn the member into GNU tar's sparse format 1.0: a map of the data, padded to a block, then the data."""
    regions = [*_data_regions(descriptor), (size, 0)]
    numbers = [len(regions), *itertools.chain.from_iterable(regions)]
    data_map = "".join(f"{number}\n" for number in numbers).encode("ascii")
    data_map += bytes(-len(data_map) % _BLOCK)
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": member.name,
        "GNU.sparse.realsize": str(size),
    }
    member.size = len(data_map) + sum(length for _, length in regions)
    return io.BufferedReader(_Chunks(itertools.chain([data_map], _data(descriptor, regions))), _CHUNK)


def _data_regions(descriptor: int) -> Iterator[tuple[int, int]]:
    end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # Only a hole is left.
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end - start


def _data(descriptor: int, regions: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    for start, length in regions:
        for offset in range(start, start + length, _CHUNK):
            yield os.pread(descriptor, min(_CHUNK, start + length - offset), offset)


class _Chunks(io.RawIOBase):
    """A sequence of chunks to be read as one file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._chunks, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _member(path: _Path, found: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo("/".join(path))
    member.type = kind
    member.mode = stat.S_IMODE(found.st_mode)
    member.mtime = found.st_mtime
    member.uid, member.gid = found.st_uid, found.st_gid
    return member


def _note(path: _Path, why: str | None) -> str:
    return f"{'/'.join(path)!a}: {why}\n"


def _add_notes(tar: tarfile.TarFile, name: str, notes: list[str]) -> None:
    text = "".join(notes).encode("ascii", "backslashreplace")
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(text), 0o600
    tar.addfile(member, io.BytesIO(text))
