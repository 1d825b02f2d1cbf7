"""The whole working tree as one tree of git: tracked and untracked files as they are, each with its exact bytes.

An index of our own remembers what was read when, so that only what changed since is read again. What git cannot or
shall not store (a FIFO, an unreadable file, a huge one) is left out, named, and known by its size and times.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from msgspec import Struct

from ...errors import SortieError
from ...protocol.safefiles import explain, open_directory
from ...protocol.session_files import DIRECTORY as OUR_DIRECTORY
from .checkout import Checkout, Damaged, shown
from .git import LONG, GitError, git
from .private_git import IndexFile, private_directory, read_index

# Of one file, and of all that a snapshot has to read together.
LARGEST = 100 << 20
MOST = 4 << 30
# What it has is changed by its own git, and not kept.
OF_ITS_OWN = "it is a repository of its own"
_MOST_INSIDE = 50_000
_REPOSITORY = "160000"
_TRIES = 3


class LeftOut(Struct, frozen=True, kw_only=True):
    """What stands at `path` is not in the tree, or not all of it; `mark` differs as soon as it was changed."""

    path: str
    why: str
    mark: str


class WorkingTree(Struct, frozen=True, kw_only=True):
    """`index` is what a later look may begin with. `ignored` are files and directories (with a `/` at the end) that
    are not in the tree because git ignores them; those that say themselves what to ignore have a mark."""

    tree: str
    left_out: tuple[LeftOut, ...]
    index: IndexFile | None
    ignored: Mapping[str, str] = {}


def read_working_tree(
    checkout: Checkout, wanted: Collection[str], *, last: IndexFile | None = None, seconds: float = LONG
) -> WorkingTree:
    """What the files are now. `wanted` are paths that are read even where git ignores them; `last` is from an
    earlier look; `seconds` is what each of the few calls of git may take."""
    problem: GitError | None = None
    for attempt in range(_TRIES):
        try:
            with private_directory() as own:
                if last and not attempt:
                    last.write(own / "index")
                return _Look(checkout, own / "index", seconds).tree(wanted)
        except GitError as error:
            if error.status is None:
                raise _explained(checkout.root, error) from error
            # The index or objects of the last look are gone, or a file went between the list and the reading.
            problem = error
        except OSError as error:
            raise SortieError(f"The files in {checkout.root} cannot be read: {explain(error)}.") from error
    assert problem is not None
    raise problem


class _Look:
    def __init__(self, checkout: Checkout, index: Path, seconds: float) -> None:
        self._checkout = checkout
        self._index = index
        self._seconds = seconds
        self._directories: dict[str, bool] = {}
        self._left_out: list[LeftOut] = []
        self._to_read: list[tuple[int, str]] = []
        self._to_forget: list[str] = []
        self._ignored: dict[str, str] = {}
        self._repositories: set[str] = set()
        self._inside = 0

    def tree(self, wanted: Collection[str]) -> WorkingTree:
        known, changed = self._listed()
        for path in sorted(self._repositories | changed | {path for path in wanted if path not in known}):
            if path.split("/", 1)[0] != OUR_DIRECTORY:
                self._examine(path, known)
        self._stay_within_bounds(known)
        if self._to_forget:
            self._update(["--force-remove"], self._to_forget)
        if self._to_read:
            self._update(["--add", "--remove", "--replace"], [path for _, path in self._to_read])
        tree = self._git("write-tree").decode("ascii").strip()
        index = None
        with open_directory(self._index.parent) as own, suppress(FileNotFoundError):  # there may be no files
            index = read_index(own, self._index.name)
        return WorkingTree(tree=tree, left_out=tuple(self._left_out), index=index, ignored=self._ignored)

    def _listed(self) -> tuple[set[str], set[str]]:
        """What our index has, and everything that may differ from what it says."""
        with ThreadPoolExecutor() as pool:  # none waits for another, and each is a process of its own
            staged = pool.submit(self._paths, "ls-files", "--stage")
            stale = pool.submit(
                self._paths, "diff-files", "--name-only", "--no-renames", "--ignore-submodules=dirty"
            )
            others = pool.submit(self._paths, "ls-files", "--others", "--exclude-standard")
            ignored = pool.submit(
                self._paths, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory"
            )
            tracked = pool.submit(self._tracked)
        self._ignored = {path: self._rules_at(path) for path in ignored.result()}
        changed = stale.result() | {path.removesuffix("/") for path in others.result()}
        known = {path for _, _, path in (entry.partition("\t") for entry in staged.result())}
        repositories = {entry.partition("\t")[2] for entry in staged.result() if entry.startswith(_REPOSITORY)}
        self._repositories = repositories - changed
        return known, changed | (tracked.result() - known)

    def _rules_at(self, path: str) -> str:
        found = self._found(path) if path.rpartition("/")[2] == ".gitignore" else None
        return _mark(found) if found else ""

    def _tracked(self) -> set[str]:
        """What the repository tracks counts, ignored or not. Where its index is damaged, ours has what it had."""
        with suppress(GitError):
            return _split(self._checkout.git("ls-files", "-z"))
        return set()

    def _examine(self, path: str, known: Collection[str]) -> None:
        place = self._checkout.root / path
        found = self._found(path)
        kind = stat.S_IFMT(found.st_mode) if found else 0
        if found is None:
            if path in known:
                self._to_forget.append(path)
        elif kind == stat.S_IFLNK:
            self._to_read.append((0, path))
        elif kind == stat.S_IFDIR:
            self._examine_directory(path, known)
        elif kind != stat.S_IFREG:
            self._leave_out(path, "it is no regular file", found, known)
        elif found.st_size > LARGEST:
            self._leave_out(path, f"it is larger than {LARGEST >> 20} MiB", found, known)
        elif not os.access(place, os.R_OK, effective_ids=True):
            self._leave_out(path, "it may not be read", found, known)
        else:
            self._to_read.append((found.st_size, path))

    def _examine_directory(self, path: str, known: Collection[str]) -> None:
        """A repository inside of this one, which counts by the commit it is at; or what was a file before."""
        inner = self._checkout.root / path / ".git"
        if os.path.lexists(inner):
            mark = self._mark_of_all(path)
            is_as_it_was = path in self._repositories
            if is_as_it_was or self._has_commit(inner):
                if not is_as_it_was:
                    self._to_read.append((0, path))
                self._left_out.append(LeftOut(path=path, why=OF_ITS_OWN, mark=mark))
                return
            self._left_out.append(LeftOut(path=path, why="it is a repository without a commit", mark=mark))
            if path in known:
                self._to_forget.append(path)
        elif path in known:
            self._to_forget.append(path)

    def _mark_of_all(self, path: str) -> str:
        """Of everything in a directory, without what git keeps there; of very much, of the beginning."""
        found = hashlib.sha256()
        for directory, inner, names in os.walk(self._checkout.root / path):
            inner[:] = sorted(name for name in inner if name != ".git")
            for place in (Path(directory, name) for name in sorted((*names, *inner))):
                with suppress(OSError):
                    status = place.lstat()
                    is_directory = stat.S_ISDIR(status.st_mode)
                    found.update(os.fsencode(place) + b"\0")
                    found.update(f"{status.st_mode:o}\0".encode() if is_directory else _mark(status).encode())
                self._inside += 1
            if self._inside > _MOST_INSIDE:
                break
        return found.hexdigest()

    def _has_commit(self, git_dir: Path) -> bool:
        env = {"GIT_DIR": str(git_dir)}
        with suppress(GitError):
            return bool(git(self._checkout.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", env=env))
        return False

    def _found(self, path: str) -> os.stat_result | None:
        """None where nothing stands there, and where the way to it leads through a link."""
        if not all(map(self._is_directory, _above(path))):
            return None
        try:
            return (self._checkout.root / path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_directory(self, path: str) -> bool:
        is_one = self._directories.get(path)
        if is_one is None:
            try:
                is_one = stat.S_ISDIR((self._checkout.root / path).lstat().st_mode)
            except (FileNotFoundError, NotADirectoryError):
                is_one = False
            self._directories[path] = is_one
        return is_one

    def _leave_out(self, path: str, why: str, found: os.stat_result, known: Collection[str]) -> None:
        self._left_out.append(LeftOut(path=path, why=why, mark=_mark(found)))
        if path in known:
            self._to_forget.append(path)

    def _stay_within_bounds(self, known: Collection[str]) -> None:
        """The largest files are left out first."""
        self._to_read.sort()
        total = 0
        for number, (size, _) in enumerate(self._to_read):
            total += size
            if total > MOST:
                for _, path in self._to_read[number:]:
                    if found := self._found(path):
                        self._leave_out(path, f"all together is more than {MOST >> 30} GiB", found, known)
                del self._to_read[number:]
                return

    def _update(self, flags: Sequence[str], paths: Iterable[str]) -> None:
        given = b"".join(os.fsencode(path) + b"\0" for path in paths)
        self._git("update-index", "-z", *flags, "--stdin", given=given)

    def _paths(self, command: str, *options: str) -> set[str]:
        return _split(self._git(command, "-z", *options))

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        return self._checkout.own_git(*arguments, given=given, index=self._index, seconds=self._seconds)


def _mark(found: os.stat_result) -> str:
    return f"{found.st_mode:o} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _split(output: bytes) -> set[str]:
    return {os.fsdecode(path) for path in output.split(b"\0") if path}


def _above(path: str) -> Iterator[str]:
    """The directories on the way to it, from the top."""
    *names, _ = path.split("/")
    return accumulate(names, "{}/{}".format)


def _explained(root: Path, error: GitError) -> SortieError:
    """git reads its rules wherever it goes, and waits for whoever may write into a FIFO of such a name."""
    for directory, _, names in os.walk(root):
        for path in (Path(directory) / name for name in (".gitignore", ".gitattributes") if name in names):
            if not path.is_symlink() and not path.is_file():
                return Damaged(f"{shown(str(path))} is not a regular file: git waits for it.", fix="Remove it.")
    return error
