"""Removing what was copied, and nothing else: a file goes only while it is the very one that was read.

That is told by its inode and the time of its last change, which nobody can set back. So it may be interrupted at
any moment and begun again: whatever took the place of a file meanwhile stays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .safefiles import component
from .tree_copy import Version, walk
from .tree_walk import Check, Descent


def remove_copied(parent: int, name: str, versions: Mapping[str, Version], check: Check) -> list[str]:
    """Remove every file that is the one of which this version was copied, and directories that are empty then; the
    answer is the paths of what stays."""
    with Descent(parent) as place:
        removing = _Removing(place, versions, check)
        walk(removing.take([component(name)]), removing)
        return removing.stays


class _Removing:
    def __init__(self, place: Descent, versions: Mapping[str, Version], check: Check) -> None:
        self.stays: list[str] = []
        self._place = place
        self._versions = versions
        self._check = check

    def enter(self, name: str) -> bool:
        try:
            self._place.enter(name, to_change=True)
        except OSError:
            self.stays.append(self._place.path(name))
            return False
        return True

    def names(self) -> list[str]:
        directory: int = self._place.fd
        return os.listdir(directory)

    def take(self, names: Sequence[str]) -> list[str]:
        inner = []
        for name in names:
            self._check()
            try:
                found = os.stat(name, dir_fd=self._place.fd, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    inner.append(name)
                elif _is_same(found, self._versions.get(self._place.path(name))):
                    os.unlink(name, dir_fd=self._place.fd)
                else:
                    self.stays.append(self._place.path(name))
            except FileNotFoundError:
                pass
            except OSError:  # it is not to be removed by us
                self.stays.append(self._place.path(name))
        return inner

    def leave(self) -> None:
        self._check()
        name = self._place.leave()
        with suppress(OSError):  # something is left in it
            os.rmdir(name, dir_fd=self._place.fd)


def _is_same(found: os.stat_result, version: Version | None) -> bool:
    if version is None or not stat.S_ISREG(found.st_mode):
        return False
    now = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns if version[3] else 0
    return now == version
