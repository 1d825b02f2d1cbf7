"""The input files of a task as they are now: every file of every input, with its size and hash, and corrections.

A person corrects an input by putting a file of the same name below `.fixes/<task>/`: it takes the place of the one
in the plan. What did not change since the last look is not read again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ..errors import ConfigurationError
from .plan import FIXES, Plan, Task

_CHUNK = 1 << 20
MOST_FILES = 10_000

# What was read before, by path: inode, size and time of change, and the hash. A plan is read anew many times, and
# pages about it are shown every few seconds.
_known: dict[str, tuple[tuple[int, int, int], str]] = {}


class InputFile(Struct, frozen=True, kw_only=True):
    """One file, and where it goes below the inbox: a copy, or a reference where it is large or meant to be one."""

    path: str
    name: str
    size: int
    sha256: str
    by_reference: bool


class Inputs:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def are_given(self, task: Task) -> bool:
        return bool(task.inputs) or self._fixes(task).exists()

    def of(self, task: Task) -> tuple[InputFile, ...]:
        """Raises `ConfigurationError` where one cannot be read."""
        if not self.are_given(task):
            return ()
        fixes = self._fixes(task)
        found: dict[str, tuple[Path, bool]] = {}
        for given in task.inputs:
            for path, name in _files(Path(given.path), given.name):
                found[name] = (path, given.by_reference)
        if fixes.is_dir():
            found |= {name: (path, False) for path, name in _files(fixes, "")}
        return tuple(self._file(path, name, task, forced=forced) for name, (path, forced) in sorted(found.items()))

    def digest(self, task: Task) -> str:
        """The same for the same files, wherever they are."""
        try:
            files = self.of(task)
        except ConfigurationError as error:
            return str(error)  # a run of the task would say so; what is completed without them is not what it was
        return "\0".join(f"{file.name}\0{file.sha256}" for file in files)

    def _fixes(self, task: Task) -> Path:
        return self._plan.root / FIXES / task.name

    def _file(self, path: Path, name: str, task: Task, *, forced: bool) -> InputFile:
        size, sha256 = self._hash(path)
        return InputFile(
            path=str(path), name=name, size=size, sha256=sha256, by_reference=forced or size > task.input_limit
        )

    @staticmethod
    def _hash(path: Path) -> tuple[int, str]:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise ConfigurationError(f"The input {path} is not a regular file.")
                version = (found.st_ino, found.st_size, found.st_mtime_ns)
                known = _known.get(str(path))
                if known is None or known[0] != version:
                    digest = hashlib.sha256()
                    while chunk := file.read(_CHUNK):
                        digest.update(chunk)
                    known = _known[str(path)] = version, digest.hexdigest()
        except OSError as error:
            fix = "Put it back, or take it out of the plan."
            raise ConfigurationError(f"The input {path} cannot be read: {error.strerror}.", fix=fix) from error
        return found.st_size, known[1]


def _files(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    """A file, or all files below a directory; links are left out, as nothing of them would be in the inbox."""
    if not path.is_dir():
        yield path, name
        return
    count = 0
    for directory, _, names in os.walk(path):
        for one in sorted(names):
            inner = Path(directory, one)
            if inner.is_symlink():
                continue
            count += 1
            if count > MOST_FILES:
                fix = "Pack it into one file, or give fewer."
                raise ConfigurationError(f"The input {path} has more than {MOST_FILES:,} files.", fix=fix)
            yield inner, "/".join(filter(None, (name.rstrip("/"), str(inner.relative_to(path)))))
