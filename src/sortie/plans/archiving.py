"""Putting away what belongs to a run of a plan: copied, read again, put in place whole, and only then removed.

An archive is built aside and gets its name when every file in it has been verified and is on disk. Nothing is
removed before that; then the store goes first, so that the next run begins anew, and every file only while it is
the very one that was copied. A death before leaves a half-made copy, which the next call throws away; a death after
leaves `.removing` in the archive, and the next call goes on with it. Whoever calls holds the locks of the store and
the root.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..errors import SortieError
from ..protocol.copied_removal import remove_copied
from ..protocol.foreign_text import escape, json_bytes, time_text
from ..protocol.safefiles import CREATE, UnsafeFile, component, explain, open_directory, open_regular, unused_name
from ..protocol.session_files import is_session_file
from ..protocol.tree_copy import Copied, TreeCopy, Version, copy_tree, read_tree
from ..protocol.tree_walk import Check, go_on, remove_entry, remove_tree
from .plan import ARCHIVE, ESCALATIONS, FIXES, MESSAGES, STORE, Plan

FILES = "files.jsonl"
ABOUT = "archive.json"
NOT_ARCHIVED = "NOT-ARCHIVED.txt"
_REMOVING = ".removing"
# Of the store, in the order in which they go: without the first, the others mean nothing.
_STORE = (STORE, f"{STORE}-wal", f"{STORE}-journal")
_SHARED_MEMORY = f"{STORE}-shm"
_BESIDE = (".sortie.logs", ".sortie.archive", MESSAGES, FIXES, ESCALATIONS)
_TIME = "%Y%m%dT%H%M%SZ"
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}\.new")

Watch = Callable[[str], None]


class Archived(Struct, frozen=True, kw_only=True):
    """`folder` is the new archive, None where there was nothing to archive; `finished` are archives of calls that
    died, of which the originals were still there. `not_archived` has paths with reasons; `changed` are files that
    were archived and became others meanwhile. Both are still in the root."""

    folder: Path | None = None
    finished: tuple[Path, ...] = ()
    tasks: tuple[str, ...] = ()
    files: int = 0
    size: int = 0
    not_archived: tuple[tuple[str, str], ...] = ()
    changed: tuple[str, ...] = ()


def archive_plan(
    plan: Plan,
    tasks: Iterable[str],
    about: dict[str, Any],
    check: Check = go_on,
    watch: Watch = lambda _: None,
) -> Archived:
    """Archive the folders of these tasks and all that the run left beside them; `about` goes into the archive."""
    try:
        with _root(plan) as root, _archives(plan, root) as archives:
            return _Archiving(plan, root, archives, check, watch).run(tasks, about)
    except OSError as error:
        raise SortieError(
            f"The plan could not be archived: {explain(error)}; what is not in an archive is where it was.",
            fix="Mend that, then archive it again.",
        ) from error


def remove_plan(plan: Plan, tasks: Iterable[str], check: Check = go_on, watch: Watch = lambda _: None) -> list[str]:
    """Remove the same for good, without an archive; the answer is the names of what went."""
    removed = []
    try:
        with _root(plan) as root:
            # The store last: whoever goes on after a death has to know what there was.
            for name in reversed(_items(root, tasks)):
                watch(f"removing {name}")
                remove_entry(root, name, check)
                removed.append(name)
            _forget_shared_memory(root)
    except OSError as error:
        raise SortieError(
            f"The plan could not be removed: {explain(error)}.", fix="Mend that, then again."
        ) from error
    return removed


class _Archiving:
    def __init__(self, plan: Plan, root: int, archives: int, check: Check, watch: Watch) -> None:
        self._plan = plan
        self._root = root
        self._archives = archives
        self._place = plan.root / ARCHIVE
        self._check = check
        self._watch = watch

    def run(self, tasks: Iterable[str], about: dict[str, Any]) -> Archived:
        finished = self._finish_others()
        items = _items(self._root, tasks)
        if not items:
            return Archived(finished=finished)
        new = f".{self._plan.name}.{os.urandom(8).hex()}.new"
        os.mkdir(new, 0o700, dir_fd=self._archives)
        try:
            copies = self._build(new, items, about)
            files = [file for copy in copies.values() for file in copy.files if file.sha256]
            skipped = tuple(entry for copy in copies.values() for entry in copy.skipped)
            if not files:
                remove_tree(self._archives, new)
                return Archived(finished=finished, not_archived=skipped)
            name = self._commit(new)
        except BaseException:
            with suppress(OSError):
                remove_tree(self._archives, new)
            raise
        changed = self._remove(name)
        unsafe = {path for path, _ in skipped}
        return Archived(
            folder=self._place / name,
            finished=finished,
            tasks=tuple(item for item in items if item not in (*_STORE, *_BESIDE)),
            files=len(files),
            size=sum(file.size for file in files),
            not_archived=skipped,
            changed=tuple(path for path in changed if not _is_below(path, unsafe)),
        )

    def _finish_others(self) -> tuple[Path, ...]:
        """What calls that died left: half-made copies go, and what is in an archive goes from the root."""
        finished = []
        archives: int = self._archives
        for name in sorted(os.listdir(archives)):
            self._check()
            if _UNFINISHED.fullmatch(name):
                remove_entry(archives, name, self._check)
            elif _is_removing(archives, name):
                self._remove(name)
                finished.append(self._place / name)
        return tuple(finished)

    # -- the copy ---------------------------------------------------------------------------------------------

    def _build(self, new: str, items: Sequence[str], about: dict[str, Any]) -> dict[str, TreeCopy]:
        with open_directory(self._archives, new) as target:
            copies = {}
            for number, item in enumerate(items, 1):
                self._watch(f"copying {item}, {number:,} of {len(items):,}")
                copies[item] = copy_tree(self._root, item, target, self._check, is_session_file)
            self._write_pages(target, copies, about)
            self._watch("waiting for the disk")
            _wait_for_disk(target)
            for number, item in enumerate(items, 1):
                self._watch(f"verifying {item}, {number:,} of {len(items):,}")
                self._verify(target, item, copies[item])
            return copies

    def _write_pages(self, target: int, copies: dict[str, TreeCopy], about: dict[str, Any]) -> None:
        files = [file for copy in copies.values() for file in copy.files]
        skipped = [entry for copy in copies.values() for entry in copy.skipped]
        _write(target, FILES, (_line(file) for file in files))
        if skipped:
            lines = (f"{escape(path)}: {why}\n".encode("utf-8", "backslashreplace") for path, why in skipped)
            _write(target, NOT_ARCHIVED, lines)
        sizes = [file.size for file in files if file.sha256]
        counts = {"files": len(sizes), "bytes": sum(sizes)}
        page = {"plan": self._plan.name, "archived": time_text(time.time()), **counts, **about}
        _write(target, ABOUT, [json_bytes(page)])
        _write(target, _REMOVING, [])

    def _verify(self, target: int, item: str, copy: TreeCopy) -> None:
        """Every file that was copied is there, with its size and its hash, and nothing else."""
        expected = {(file.path, file.size, file.sha256) for file in copy.files if file.sha256}
        if not expected:
            return
        there = read_tree(target, item, self._check)
        if {(file.path, file.size, file.sha256) for file in there.files} != expected or there.skipped:
            raise SortieError(
                f"The copy of {item} is not what was copied; nothing was removed.", fix="Look after the disk."
            )

    def _commit(self, new: str) -> str:
        name = unused_name(self._archives, f"{time.strftime(_TIME, time.gmtime())}-{self._plan.name}")
        self._check()
        os.rename(new, name, src_dir_fd=self._archives, dst_dir_fd=self._archives)
        os.fsync(self._archives)
        self._check()
        return name

    # -- the originals ----------------------------------------------------------------------------------------

    def _remove(self, archive: str) -> list[str]:
        """All that is in this archive goes from the root; the answer is what stays."""
        stays = []
        with open_directory(self._archives, archive) as directory, _damage_explained(self._place / archive):
            for item, versions in _versions(directory):
                self._watch(f"removing {item}, which is in the archive")
                with suppress(FileNotFoundError):
                    stays += remove_copied(self._root, item, versions, self._check)
            _forget_shared_memory(self._root)
            os.fsync(self._root)
            self._check()
            os.unlink(_REMOVING, dir_fd=directory)
        return stays


def _items(root: int, tasks: Iterable[str]) -> list[str]:
    """What there is of the run, the store first. Without a store nothing was run: all that is there is others'."""
    there = set(os.listdir(root))
    if STORE not in there:
        return []
    return [name for name in dict.fromkeys((*_STORE, *_BESIDE, *tasks)) if name in there]


def _line(file: Copied) -> bytes:
    document: dict[str, Any] = {"path": file.path, "size": file.size, "sha256": file.sha256}
    if file.holes:
        document["holes"] = True
    return json.dumps({**document, "version": file.version}).encode() + b"\n"


def _versions(directory: int) -> Iterator[tuple[str, dict[str, Version]]]:
    """By the names in the root, in the order in which they were copied."""
    with open_regular(directory, FILES) as descriptor, os.fdopen(os.dup(descriptor), "rb") as lines:
        files = ((document["path"], tuple(document["version"])) for document in map(json.loads, lines))
        for item, group in itertools.groupby(files, key=lambda file: component(file[0].partition("/")[0])):
            yield item, dict(group)


def _write(directory: int, name: str, lines: Iterable[bytes]) -> None:
    with os.fdopen(os.open(name, CREATE, 0o600, dir_fd=directory), "wb") as file:
        file.writelines(lines)


def _is_removing(archives: int, name: str) -> bool:
    with suppress(OSError), open_directory(archives, name) as archive:
        os.stat(_REMOVING, dir_fd=archive, follow_symlinks=False)
        return True
    return False


def _forget_shared_memory(root: int) -> None:
    """It belongs to whoever has the store open, and holds nothing of its own."""
    if STORE not in os.listdir(root):
        with suppress(OSError):
            os.unlink(_SHARED_MEMORY, dir_fd=root)


def _wait_for_disk(directory: int) -> None:
    """Everything at once: thousands of files, one by one, would take minutes."""
    if ctypes.CDLL(None, use_errno=True).syncfs(directory):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _is_below(path: str, others: set[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:count]) in others for count in range(1, len(parts) + 1))


@contextmanager
def _damage_explained(archive: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SortieError(
            f"{archive / FILES} is damaged, so nobody knows any more what of it is still in the root.",
            fix=f"Compare the two, then remove {archive / _REMOVING}.",
        ) from error


@contextmanager
def _root(plan: Plan) -> Iterator[int]:
    with open_directory(plan.root.resolve(strict=True)) as root:
        yield root


@contextmanager
def _archives(plan: Plan, root: int) -> Iterator[int]:
    with suppress(FileExistsError):
        os.mkdir(ARCHIVE, 0o700, dir_fd=root)
    with ExitStack() as stack:
        try:
            archives = stack.enter_context(open_directory(root, ARCHIVE))
        except UnsafeFile as error:
            raise SortieError(f"{plan.root / ARCHIVE} is no directory.", fix="Move it away.") from error
        yield archives
