"""A workspace as one compressed file: complete, durable on disk, and private.

Untracked files, links and empty directories are kept; holes in files stay holes. FIFOs, sockets and devices, which
hold nothing, are listed in `<key>.not-archived.txt` in the archive. Anything else that cannot be archived whole (a
file we may not read or that changes meanwhile, a mount point) ends the attempt, and there is no archive. Archives
may hold secrets that an agent was given, so only their owner can read them. The files of our own sessions, which
may hold the tracker's key, are left out.
"""

from __future__ import annotations

import errno
import fcntl
import io
import itertools
import os
import secrets
import stat
import tarfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from ..protocol.safefiles import open_directory, open_regular
from ..protocol.session_files import is_session_file
from ..protocol.tree_walk import Check, Descent
from .directory import ARCHIVE_TIME

_HOLES_WORTH_KEEPING = 1 << 20
_CHUNK = 1 << 18
_BLOCK = 512


def make_archive(root_fd: int, name: str, archive_dir: Path, comment: str, check: Check) -> Path:
    """Everything at `name` as `<name>-<time>.tar.gz`, durable when this returns. No archive is ever overwritten.

    The file is locked while it is written, so that others can tell the remains of an interrupted one.
    """
    archive_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = f"{name}-{datetime.now(UTC).strftime(ARCHIVE_TIME)}"
    with open_directory(archive_dir.resolve(strict=True)) as archives:
        temporary = f".{stem}.tar.gz.{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=archives)
        try:
            with os.fdopen(descriptor, "wb") as file:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                headers = {"comment": comment.encode("utf-8", "backslashreplace").decode("utf-8")}
                with tarfile.open(
                    fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=6, pax_headers=headers
                ) as tar:
                    tar.copybufsize = _CHUNK  # type: ignore[attr-defined]
                    _add_tree(tar, root_fd, name, check)
                file.flush()
                os.fsync(descriptor)
            target = _unused(archive_dir, stem)
            os.rename(temporary, target.name, src_dir_fd=archives, dst_dir_fd=archives)
        except BaseException:
            os.unlink(temporary, dir_fd=archives)
            raise
        os.fsync(archives)
        return target


def _unused(archive_dir: Path, stem: str) -> Path:
    path = archive_dir / f"{stem}.tar.gz"
    numbers = itertools.count(2)
    while os.path.lexists(path):
        path = archive_dir / f"{stem}-{next(numbers)}.tar.gz"
    return path


def _add_tree(tar: tarfile.TarFile, root_fd: int, top: str, check: Check) -> None:
    """Depth first, each directory just before what is in it: programs that extract rely on that order."""
    skipped: list[str] = []
    with Descent(root_fd) as place:

        def into(name: str) -> list[str]:
            place.enter(name)
            directory: int = place.fd
            _add(tar, _member(place.path(), os.fstat(directory), tarfile.DIRTYPE))
            return _add_entries(tar, place, os.listdir(directory), skipped, check)

        place.walk(_add_entries(tar, place, [top], skipped, check), into, place.leave)
    if skipped:
        notes = "".join(skipped).encode("ascii", "backslashreplace")
        member = tarfile.TarInfo(f"{top}.not-archived.txt")
        member.size, member.mode = len(notes), 0o600
        _add(tar, member, io.BytesIO(notes))


def _add_entries(
    tar: tarfile.TarFile, place: Descent, names: list[str], skipped: list[str], check: Check
) -> list[str]:
    """Add these entries of one directory but the directories, whose names are returned, the last one first."""
    inner = []
    directory: int = place.fd
    for name in sorted(names):
        check()
        path = place.path(name)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            inner.append(name)
        elif stat.S_ISLNK(found.st_mode):
            link = _member(path, found, tarfile.SYMTYPE)
            link.linkname = os.readlink(name, dir_fd=directory)
            _add(tar, link)
        elif not stat.S_ISREG(found.st_mode):
            skipped.append(f"{path!a}: not a file, directory or link\n")
        # Files of a session are ours, worth nothing without it, and may hold credentials.
        elif not place.names or not is_session_file((*place.names[1:], name)):
            with open_regular(directory, name) as descriptor:
                place.refuse_mount(descriptor, name)
                _add_file(tar, path, descriptor, check)
                if _version(os.fstat(descriptor)) != _version(found):
                    raise OSError(errno.EBUSY, "It changed while it was read", name)
    return inner[::-1]


def _add(tar: tarfile.TarFile, member: tarfile.TarInfo, content: io.BytesIO | _Chunks | None = None) -> None:
    tar.addfile(member, content)
    tar.members.clear()  # type: ignore[attr-defined]  # kept for readers alone; a million are too many


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
    _add(tar, member, _Chunks(content, check))


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


class _Chunks:
    """A sequence of chunks to be read as one file, with a check before each."""

    def __init__(self, chunks: Iterator[bytes], check: Check) -> None:
        self._chunks = chunks
        self._check = check
        self._rest = bytearray()

    def read(self, size: int = _CHUNK) -> bytes:
        while len(self._rest) < size:
            self._check()
            self._rest += next(self._chunks)
        taken = bytes(self._rest[:size])
        del self._rest[:size]
        return taken


def _member(path: str, found: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.type = kind
    member.mode = stat.S_IMODE(found.st_mode)
    member.mtime = found.st_mtime
    member.uid, member.gid = found.st_uid, found.st_gid
    return member
