"""Removing a workspace: first a complete archive, durable on disk, and only then the removal.

Untracked files, links and empty directories are kept; holes in files stay holes. FIFOs, sockets and devices, which
hold nothing, are listed in `<key>.not-archived.txt` in the archive. Anything else that cannot be archived whole (a
file we may not read or that changes meanwhile, a mount point) ends the attempt: there is no archive, and the
workspace stays. Archives may hold secrets that an agent was given, so only their owner can read them. The
files of our own sessions, which may hold the tracker's key, are left out.
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
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import WorkspaceError
from ..protocol.safefiles import UnsafeFile, open_directory, open_regular
from ..protocol.session_files import is_session_file
from ..protocol.trees import Check, Descent, go_on, located, remove_tree
from .keys import workspace_key
from .place import NotOurs, Workspace, forget_incomplete, note_incomplete, open_workspace, workspace_error

_TIME = "%Y%m%dT%H%M%SZ"
_OURS = re.compile(r".+-(\d{8}T\d{6}Z)(-\d+)?\.tar\.gz(\.[0-9a-f]{16}\.tmp)?")
_HOLES_WORTH_KEEPING = 1 << 20
_CHUNK = 1 << 18
_BLOCK = 512


def archive_and_remove(root: Path, key: str, archive_dir: Path, name: str, check: Check = go_on) -> Path | None:
    """Archive a workspace as `<key>-<time>.tar.gz`, then remove it. None if there is none. Blocks.

    When archiving fails, nothing is removed. No archive is ever overwritten. `root` is a path without links.
    `name`, the issue's own, is kept in the archive's comment, because a key does not always show it.
    """
    workspace = root / key
    if not os.path.lexists(workspace):
        return None
    try:
        if root.resolve(strict=True) != root:
            raise UnsafeFile(errno.ELOOP, "Symbolic link refused", str(root))
        with open_directory(root) as root_fd:
            archive = _archive(root_fd, key, archive_dir, f"Workspace of {name}", check)
            _remove(root_fd, key, workspace, archive, check)
            return archive
    except (OSError, tarfile.TarError) as error:
        message = f"The workspace {workspace} stays, because it could not be archived in {archive_dir}"
        raise workspace_error(message, error) from error


def claim_workspace(
    root: Path, identifier: str, is_ours: Callable[[Path, int], bool], archive_dir: Path, check: Check
) -> tuple[Workspace, Path | None]:
    """Open the workspace of an issue; a directory in its place that is not ours goes into the archive first."""
    try:
        return open_workspace(root, identifier, is_ours, check), None
    except NotOurs:
        key = workspace_key(identifier)
        archive = archive_and_remove(root.resolve(), key, archive_dir, f"{identifier}, not made by us", check)
        return open_workspace(root, identifier, is_ours, check), archive


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


def _remove(root_fd: int, key: str, workspace: Path, archive: Path, check: Check) -> None:
    """Whoever finds the rest of a removal that was interrupted must not take it for a workspace."""
    try:
        note_incomplete(root_fd, key)
        remove_tree(root_fd, key, check)
        forget_incomplete(root_fd, key)
    except OSError as error:
        raise WorkspaceError(
            f"The workspace {workspace} is archived in {archive} but could not be removed: {error}.",
            fix="Remove the directory by hand.",
        ) from error


def _archive(root_fd: int, key: str, archive_dir: Path, comment: str, check: Check) -> Path:
    archive_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{key}-{datetime.now(UTC).strftime(_TIME)}"
    with open_directory(archive_dir.resolve(strict=True)) as archives:
        temporary = f".{name}.tar.gz.{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=archives)
        try:
            with os.fdopen(descriptor, "wb") as file:
                with _compressed(file, comment) as tar:
                    _add_tree(tar, root_fd, key, check)
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


def _add_tree(tar: tarfile.TarFile, root_fd: int, key: str, check: Check) -> None:
    """Depth first, each directory just before what is in it: programs that extract rely on that order."""
    skipped: list[str] = []
    with Descent(root_fd) as place:
        pending = [[key]]
        while True:
            try:
                if pending[-1]:
                    place.enter(pending[-1].pop())
                    tar.addfile(_member(place.path, os.fstat(place.fd), tarfile.DIRTYPE))
                    pending.append(_add_entries(tar, place, skipped, check))
                    continue
                pending.pop()
                if not pending:
                    break
                place.leave()
            except OSError as error:
                raise located(error, place) from error
    if skipped:
        _add_notes(tar, f"{key}.not-archived.txt", skipped)


def _add_entries(tar: tarfile.TarFile, place: Descent, skipped: list[str], check: Check) -> list[str]:
    """Add everything in one directory but the directories, whose names are returned, the last one first."""
    inner = []
    directory: int = place.fd
    for name in sorted(os.listdir(directory)):
        check()
        path = f"{place.path}/{name}"
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            inner.append(name)
        elif stat.S_ISLNK(found.st_mode):
            link = _member(path, found, tarfile.SYMTYPE)
            link.linkname = os.readlink(name, dir_fd=directory)
            tar.addfile(link)
        elif stat.S_ISREG(found.st_mode) and is_session_file(tuple(path.split("/")[1:])):
            continue  # ours, worth nothing without its session, and it may hold credentials
        elif stat.S_ISREG(found.st_mode):
            with open_regular(directory, name) as descriptor:
                place.refuse_mount(descriptor, name)
                _add_file(tar, path, descriptor, check)
                if _version(os.fstat(descriptor)) != _version(found):
                    raise OSError(errno.EBUSY, "It changed while it was read", name)
        else:
            skipped.append(f"{path!a}: not a file, directory or link\n")
    return inner[::-1]


def _version(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _add_file(tar: tarfile.TarFile, path: str, descriptor: int, check: Check) -> None:
    found = os.fstat(descriptor)
    member = _member(path, found, tarfile.REGTYPE)
    if found.st_size - found.st_blocks * 512 >= _HOLES_WORTH_KEEPING:
        content = _leave_out_holes(member, descriptor, found.st_size)
    else:
        member.size = found.st_size
        content = _data(descriptor, [(0, found.st_size)])
    with io.BufferedReader(_Chunks(content, check), _CHUNK) as file:
        tar.addfile(member, file)


def _leave_out_holes(member: tarfile.TarInfo, descriptor: int, size: int) -> Iterator[bytes]:
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
    return itertools.chain([data_map], _data(descriptor, regions))


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
            length_now = min(_CHUNK, start + length - offset)
            # That a file got shorter meanwhile is noticed when it has been read.
            yield os.pread(descriptor, length_now, offset).ljust(length_now, b"\0")


class _Chunks(io.RawIOBase):
    """A sequence of chunks to be read as one file, with a check before each."""

    def __init__(self, chunks: Iterator[bytes], check: Check) -> None:
        self._chunks = chunks
        self._check = check
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._check()
            self._rest = next(self._chunks, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _member(path: str, found: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.type = kind
    member.mode = stat.S_IMODE(found.st_mode)
    member.mtime = found.st_mtime
    member.uid, member.gid = found.st_uid, found.st_gid
    return member


def _add_notes(tar: tarfile.TarFile, name: str, notes: list[str]) -> None:
    text = "".join(notes).encode("ascii", "backslashreplace")
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(text), 0o600
    tar.addfile(member, io.BytesIO(text))
