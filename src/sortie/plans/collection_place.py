"""Where a collection is put: built aside and put in place whole. What a person changed in an earlier one is kept.

An earlier collection goes only if every file in it is still what we wrote, and nothing came to it; else it is kept
beside the new one, with the time in its name. A folder that is no collection is never touched. A death in between
leaves names that begin with a dot: the next collection removes them, by the same rule.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import SortieError
from ..protocol.outbox import take_stock
from ..protocol.safefiles import explain, open_directory, read_bounded, unused_name, write_new
from ..protocol.tree_walk import Check, go_on, remove_tree
from .collection import FORMAT, MANIFEST, SUMMARY_PAGE, is_as_written

_LARGEST_MANIFEST = 1 << 29
_NEW, _OLD = "new", "old"
_TIME = "%Y%m%dT%H%M%SZ"


class CollectionPlace:
    """`kept` is where an earlier collection is that a person changed."""

    def __init__(self, target: Path, check: Check = go_on) -> None:
        self.folder = target.absolute()
        self.kept: Path | None = None
        self._name = self.folder.name
        self._check = check

    @contextmanager
    def build(self) -> Iterator[int]:
        """A descriptor of an empty directory, which takes the place when the block ends; if it raises, nothing
        changes."""
        try:
            with ExitStack() as stack:
                parent = stack.enter_context(self._parent())
                self._require_room(parent)
                self._clear_away(parent)
                name = self._aside(_NEW)
                os.mkdir(name, 0o755, dir_fd=parent)
                try:
                    new = stack.enter_context(open_directory(parent, name))
                    fcntl.flock(new, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield new
                    self._put_in_place(parent, name)
                except BaseException:
                    with suppress(FileNotFoundError):
                        remove_tree(parent, name)
                    raise
        except BlockingIOError as error:
            raise SortieError(f"Another `sortie plan collect` is about to replace {self.folder}.") from error
        except OSError as error:
            raise SortieError(f"{self.folder} cannot be written: {explain(error)}.") from error

    @contextmanager
    def _parent(self) -> Iterator[int]:
        try:
            parent = self.folder.parent.resolve(strict=True)
        except FileNotFoundError:
            raise SortieError(
                f"There is no directory {self.folder.parent}.", fix="Make it, or name another one with -o."
            ) from None
        with open_directory(parent) as descriptor:
            yield descriptor

    def _require_room(self, parent: int) -> None:
        """There is nothing, an empty directory, or a collection."""
        found = _found(parent, self._name)
        if found is None:
            return
        if stat.S_ISDIR(found.st_mode):
            with open_directory(parent, self._name) as opened:
                directory: int = opened
                if not os.listdir(directory) or _manifest(directory) is not None:
                    return
        raise SortieError(
            f"{self.folder} is there already, and is no collection of a plan.",
            fix="Move it away, or name another folder with -o.",
        )

    def _clear_away(self, parent: int) -> None:
        """What a death left, of no use or unchanged; whoever is at work on such a name holds its lock."""
        ours = re.compile(rf"\.{re.escape(self._name)}\.[0-9a-f]{{16}}\.({_NEW}|{_OLD})")
        for name in os.listdir(parent):
            if not (match := ours.fullmatch(name)):
                continue
            with suppress(OSError), open_directory(parent, name) as directory:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if match[1] == _NEW:
                    remove_tree(parent, name, self._check)
                else:
                    self._retire(parent, name)

    def _put_in_place(self, parent: int, new: str) -> None:
        with ExitStack() as stack:
            old = ""
            if _found(parent, self._name) is not None:
                directory = stack.enter_context(open_directory(parent, self._name))
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                old = self._aside(_OLD)
                os.rename(self._name, old, src_dir_fd=parent, dst_dir_fd=parent)
            os.rename(new, self._name, src_dir_fd=parent, dst_dir_fd=parent)
            if old:
                self._retire(parent, old)

    def _retire(self, parent: int, name: str) -> None:
        """Where nobody changes it any more: nobody else knows this name."""
        if _is_untouched(parent, name, self._check):
            remove_tree(parent, name, self._check)
        else:
            kept = unused_name(parent, f"{self._name}.{time.strftime(_TIME, time.gmtime())}")
            os.rename(name, kept, src_dir_fd=parent, dst_dir_fd=parent)
            self.kept = self.folder.with_name(kept)

    def _aside(self, kind: str) -> str:
        return f".{self._name}.{os.urandom(8).hex()}.{kind}"


def _is_untouched(parent: int, name: str, check: Check) -> bool:
    """Whether it is empty, or exactly what its manifest says, and that is what we wrote."""
    with open_directory(parent, name) as opened:
        directory: int = opened
        if not os.listdir(directory):
            return True
        document = _manifest(directory)
    if document is None or not is_as_written(document):
        return False
    try:
        files = [(f"{name}/{file['path']}", file["size"], file["sha256"]) for file in _written(document)]
        most_bytes = sum(size for _, size, _ in files) + _LARGEST_MANIFEST
    except (KeyError, TypeError):  # somebody else wrote it
        return False
    stock = take_stock(parent, name, most_files=len(files) + 1, most_bytes=most_bytes, check=check)
    found = {(file.path, file.size, file.sha256) for file in stock.files if file.path != f"{name}/{MANIFEST}"}
    return not stock.problem and not stock.refused and found == set(files)


def _written(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [*document["files"], document["summary"]]


def _manifest(directory: int) -> dict[str, Any] | None:
    """None where there is none of ours."""
    try:
        document = json.loads(read_bounded(directory, MANIFEST, _LARGEST_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and document.get("format") == FORMAT else None


def _found(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def write_pages(directory: int, summary: bytes, manifest: bytes) -> None:
    """The manifest last: without it, a folder is no collection."""
    for name, page in ((SUMMARY_PAGE, summary), (MANIFEST, manifest)):
        write_new(directory, name, page, 0o444)
