"""Puts files of a working tree back as they were: content, mode, links as links, and those that were new go.

Every step goes through descriptors of directories and follows no link, so nothing outside of the root is touched. A
file is only replaced while it is what was kept of it; done once more, it finds everything done.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate

from ...errors import SortieError
from ...protocol.safefiles import CREATE, UnsafeFile, explain, open_directory, open_regular
from .changes import ChangedFile
from .checkout import Checkout, shown
from .objects import Blobs, Entry, blob_id
from .working_tree import LARGEST, OF_ITS_OWN

_CHUNK = 1 << 20
# What has no content cannot lose any.
_WITHOUT_CONTENT = (stat.S_IFIFO, stat.S_IFSOCK)


def in_the_way(wanted: Iterable[str], changes: Iterable[ChangedFile]) -> set[str]:
    """New files that stand where files that are to come back, or directories of theirs, were."""
    new = {file.path for file in changes if file.after is not None and file.before is None}
    back = set(wanted)
    above = {directory for path in back for directory in directories_of(path)}
    return (new & above) | {path for path in new if any(directory in back for directory in directories_of(path))}


def directories_of(path: str) -> Iterator[str]:
    *names, _ = path.split("/")
    return accumulate(names, "{}/{}".format)


class PutBack:
    """`done` are the paths that are as they were before, `problems` says of the others why they are not."""

    def __init__(self, checkout: Checkout, known_directories: set[str]) -> None:
        self._checkout = checkout
        self._known_directories = known_directories
        self._blobs = Blobs(checkout, ())
        self.done: list[str] = []
        self.problems: list[str] = []

    def all_of(self, files: Iterable[ChangedFile]) -> None:
        """New ones first: they may stand where old ones come back to."""
        ordered = sorted(files, key=lambda file: (file.before is not None, file.path))
        self._blobs = Blobs(self._checkout, (file.before.oid for file in ordered if file.before))
        for file in ordered:
            try:
                self._one(file)
                self.done.append(file.path)
            except OSError as error:
                self.problems.append(f"{shown(file.path)} could not be put back: {explain(error)}.")
            except SortieError as error:
                self.problems.append(f"{shown(file.path)} could not be put back: {error.message}")

    def _one(self, file: ChangedFile) -> None:
        if file.unkept == OF_ITS_OWN or any(entry and entry.is_repository for entry in (file.before, file.after)):
            raise SortieError("It is a repository of its own.")
        *names, name = file.path.split("/")
        if file.before is None:
            with suppress(FileNotFoundError), self._directory(names) as directory:
                self._remove(directory, name, file)
            self._remove_empty(file.path)
            return
        with self._directory(names, make=True) as directory:
            if not self._is_there(directory, name, file.before):
                self._refuse_unkept(directory, name, file)
                self._write(directory, name, file.before)

    @contextmanager
    def _directory(self, names: list[str], *, make: bool = False) -> Iterator[int]:
        with open_directory(self._checkout.root) as root:
            if make:
                for number in range(len(names)):
                    with open_directory(root, *names[:number]) as outer, suppress(FileExistsError):
                        os.mkdir(names[number], dir_fd=outer)
            with open_directory(root, *names) as directory:
                yield directory

    def _remove(self, directory: int, name: str, file: ChangedFile) -> None:
        self._refuse_unkept(directory, name, file)
        os.unlink(name, dir_fd=directory)

    def _remove_empty(self, path: str) -> None:
        """Directories that were not there before go with the last file in them."""
        for above in reversed([*directories_of(path)]):
            if above in self._known_directories:
                return
            *names, name = above.split("/")
            try:
                with self._directory(names) as directory:
                    os.rmdir(name, dir_fd=directory)
            except OSError:  # something else is in it, or it is gone
                return

    def _refuse_unkept(self, directory: int, name: str, file: ChangedFile) -> None:
        """Raise where what stands there is neither nothing nor what was kept of it."""
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        kind = stat.S_IFMT(found.st_mode)
        if kind in _WITHOUT_CONTENT:
            return
        if kind == stat.S_IFDIR:
            os.rmdir(name, dir_fd=directory)  # only where it is empty
        elif file.after is None or not self._is_there(directory, name, file.after):
            why = file.unkept or "it was changed since the turn ended"
            raise UnsafeFile(errno.EBUSY, f"Its content is not kept: {why}", name)

    def _is_there(self, directory: int, name: str, entry: Entry) -> bool:
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=directory))
                return entry.is_link and blob_id(self._checkout, target) == entry.oid
            if not stat.S_ISREG(found.st_mode) or not entry.is_file or found.st_size > LARGEST:
                return False
            with open_regular(directory, name) as descriptor:
                is_executable = bool(os.fstat(descriptor).st_mode & stat.S_IXUSR)
                return is_executable == entry.is_executable and self._id_of(descriptor) == entry.oid
        except FileNotFoundError:
            return False

    def _id_of(self, descriptor: int) -> str:
        pieces = []
        while piece := os.read(descriptor, _CHUNK):
            pieces.append(piece)
        return blob_id(self._checkout, b"".join(pieces))

    def _write(self, directory: int, name: str, entry: Entry) -> None:
        content = self._blobs.get(entry.oid)
        # The same name each time: what a crash left is used up by whoever comes next.
        temporary = f".sortie-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.tmp"
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        if entry.is_link:
            os.symlink(content, temporary, dir_fd=directory)
        else:
            mode = 0o777 if entry.is_executable else 0o666
            with os.fdopen(os.open(temporary, CREATE, mode, dir_fd=directory), "wb") as file:
                file.write(content)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
