"""A git directory for one call, made from memory and gone with it, and index files that begin a later look.

Whatever an agent puts into our state directory, no setting, attribute, exclude or program of it is read. An index
is taken from there bounded, through no link, and only before a turn begins: within a turn it is kept in memory.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from ...errors import SortieError
from ...protocol.safefiles import explain, open_directory, open_regular, write_atomic

# An index of a million files is about 100 MiB.
LARGEST_INDEX = 256 << 20
_BEGINNING = b"DIRC"
_STATE = ("sortie", "snapshots")
_CONFIG = """\
[core]
\trepositoryformatversion = 1
\tbare = false
\tsymlinks = true
\tfileMode = true
[extensions]
\tobjectFormat = {}
"""
# The strongest of all attributes: what is stored are the bytes of the file.
_ATTRIBUTES = b"* -text -eol -ident -filter -working-tree-encoding\n"


class IndexFile(Struct, frozen=True, kw_only=True):
    """With its time: git knows by it which files may have changed within the second of that look."""

    content: bytes
    time: int

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def write(self, path: Path) -> None:
        path.write_bytes(self.content)
        os.utime(path, ns=(self.time, self.time))


@contextmanager
def private_directory() -> Iterator[Path]:
    """An empty one, outside of every checkout, gone at the end."""
    try:
        made = tempfile.TemporaryDirectory(prefix="sortie-git-", ignore_cleanup_errors=True)
    except OSError as error:
        raise SortieError(
            f"There is no room for temporary files: {explain(error)}.", fix="Make some, or set TMPDIR."
        ) from error
    with made as name:
        yield Path(name)


@contextmanager
def private_git_dir(object_format: str, excludes: bytes) -> Iterator[Path]:
    """One that says nothing but what we say; objects and files are told to git by other means."""
    with private_directory() as own:
        try:
            for name in ("refs", "objects", "info"):
                (own / name).mkdir()
            (own / "HEAD").write_bytes(b"ref: refs/heads/none\n")
            (own / "config").write_text(_CONFIG.format(object_format), "ascii")
            (own / "info" / "attributes").write_bytes(_ATTRIBUTES)
            (own / "info" / "exclude").write_bytes(excludes)
        except OSError as error:
            raise SortieError(
                f"{own} cannot be written: {explain(error)}.", fix="Make room, or set TMPDIR."
            ) from error
        yield own


class StateFiles:
    """Index files in the state directory of a git directory. Raises `OSError` where that is not to be had."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir

    def make(self) -> None:
        with open_directory(self._git_dir) as outer:
            for number, name in enumerate(_STATE):
                with open_directory(outer, *_STATE[:number]) as directory, suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=directory)
            with open_directory(outer, *_STATE):
                pass

    def read(self, name: str) -> IndexFile | None:
        with suppress(OSError), open_directory(self._git_dir, *_STATE) as directory:
            return read_index(directory, name)
        return None

    def write(self, name: str, index: IndexFile) -> None:
        """One that is too large is not kept."""
        with open_directory(self._git_dir, *_STATE) as directory:
            if len(index.content) <= LARGEST_INDEX:
                write_atomic(directory, name, index.content)
                os.utime(name, ns=(index.time, index.time), dir_fd=directory, follow_symlinks=False)

    def clear(self, *kept: str) -> None:
        """Files alone: nothing of ours has been a directory."""
        with open_directory(self._git_dir, *_STATE) as directory:
            for name in os.listdir(directory):  # noqa: PTH208 - by its descriptor
                if name not in kept:
                    with suppress(IsADirectoryError, PermissionError, FileNotFoundError):
                        os.unlink(name, dir_fd=directory)


def read_index(directory: int, name: str) -> IndexFile | None:
    """None for what is no index, or too large for one. Raises `OSError` where there is none."""
    with open_regular(directory, name) as descriptor:
        found = os.fstat(descriptor)
        if found.st_size > LARGEST_INDEX or os.pread(descriptor, len(_BEGINNING), 0) != _BEGINNING:
            return None
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return IndexFile(content=file.read(found.st_size), time=found.st_mtime_ns)
