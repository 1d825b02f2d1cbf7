"""What a tree of git has at a path, and the bytes of that; by ids, which no setting and no ref can change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from msgspec import Struct

from .checkout import Checkout

# Together not more than a call may say; what is larger is read by itself.
_MOST_BLOBS = 200
_LARGEST_IN_GROUP = 1 << 20


class Entry(Struct, frozen=True):
    """What stands at a path of a tree: a regular file, a symbolic link, or a repository inside of this one."""

    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        return self.mode.startswith("100")

    @property
    def is_executable(self) -> bool:
        return self.mode == "100755"

    @property
    def is_link(self) -> bool:
        return self.mode == "120000"

    @property
    def is_repository(self) -> bool:
        return self.mode == "160000"


def entries_of(checkout: Checkout, tree: str, paths: Iterable[str] = ()) -> dict[str, Entry]:
    """All entries of a tree by their paths, or those at some paths."""
    found = {}
    for line in checkout.own_git("ls-tree", "-r", "-z", "--full-tree", tree, "--", *paths).split(b"\0"):
        if line:
            about, _, path = line.partition(b"\t")
            mode, _, oid = about.decode("ascii").split()
            found[os.fsdecode(path)] = Entry(mode, oid)
    return found


def blob(checkout: Checkout, oid: str) -> bytes:
    return checkout.own_git("cat-file", "blob", oid)


class Blobs:
    """The bytes of many blobs, read in the order in which they are wanted, some of them at a time."""

    def __init__(self, checkout: Checkout, oids: Iterable[str]) -> None:
        self._checkout = checkout
        self._waiting = list(dict.fromkeys(oids))[::-1]
        self._read: dict[str, bytes] = {}

    def get(self, oid: str) -> bytes:
        """Raises `GitError` where it is not there any more."""
        while oid not in self._read and self._waiting:
            self._read = self._next()
        return self._read[oid] if oid in self._read else blob(self._checkout, oid)

    def _next(self) -> dict[str, bytes]:
        group = [self._waiting.pop() for _ in range(min(_MOST_BLOBS, len(self._waiting)))]
        about = self._git("--batch-check=%(objectsize) %(objectname)", group)
        sizes = [(int(words[0]), words[1]) for line in about.splitlines() if len(words := line.split()) == 2]
        small = [oid.decode("ascii") for size, oid in sizes if size <= _LARGEST_IN_GROUP]
        output = self._git("--batch", small)
        found: dict[str, bytes] = {}
        at = 0
        for oid in small:
            end = output.index(b"\n", at)
            size = int(output[at:end].rpartition(b" ")[2])
            found[oid] = output[end + 1 : end + 1 + size]
            at = end + size + 2
        return found

    def _git(self, how: str, oids: list[str]) -> bytes:
        return self._checkout.own_git("cat-file", how, given="".join(f"{oid}\n" for oid in oids).encode("ascii"))


def blob_id(checkout: Checkout, content: bytes) -> str:
    """The id that git gives to these bytes."""
    return hashlib.new(checkout.object_format, b"blob %d\0" % len(content) + content).hexdigest()
