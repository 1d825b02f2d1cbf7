"""What a tree of git has at a path, and the bytes of it; by ids, which no setting and no ref can change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from msgspec import Struct

from .checkout import Checkout


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


def blob_id(checkout: Checkout, content: bytes) -> str:
    """The id that git gives to these bytes."""
    return hashlib.new(checkout.object_format, b"blob %d\0" % len(content) + content).hexdigest()
