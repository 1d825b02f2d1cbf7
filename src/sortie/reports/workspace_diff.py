"""The diff of a git workspace against the commit at which its work began, safe whatever an agent wrote there.

git runs with settings of our own: no filter, hook, attribute, textconv or fsmonitor of the repository is used, and
no repository but the one in the workspace, or the one whose working tree it is. Nothing is written into it, and
files, bytes and seconds are limited. The index of the repository decides which files are read: an agent that forges
it can hide a change here, as it can from `git diff`.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..core.redact import Hide
from ..errors import SortieError
from ..peers.turns.checkout import Checkout, open_checkout, refuse_irregular
from ..peers.turns.git import GitError, git
from ..peers.turns.private_git import IndexFile, private_git_dir, read_index
from ..protocol.foreign_text import escape
from ..protocol.safefiles import open_directory, read_bounded
from ..protocol.session_files import DIRECTORY as OUR_DIRECTORY

How = Literal["added", "modified", "deleted", "type changed", "untracked"]

SECONDS = 5.0
MOST_FILES = 500
MOST_SHOWN = 100
LARGEST_SHOWN = 256 << 10
MOST_LINES = 3_000
# Of all files together: each reader of a page is sent this again every few seconds.
MOST_LINES_OF_ALL = 5_000
MOST_BYTES_OF_ALL = 512 << 10
MOST_SAID = 8 << 20
_BIG = "1m"
_TOO_MUCH = "too much changed to show all of it"
_HOWS: dict[str, How] = {"A": "added", "M": "modified", "D": "deleted", "T": "type changed"}
_LONGEST_POINTER = 4096
# Where the work of an agent branched off, the likeliest first.
_BASES = ("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master")
_DIFF = ("diff", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-color")


class DiffLine(Struct, frozen=True):
    """`kind` is `+`, `-`, a blank for what is the same, `@` for the head of a part, or a backslash for a remark of
    git about the line before."""

    kind: str
    text: str


class FileChange(Struct, frozen=True, kw_only=True):
    """`added` and `removed` are lines, None where nobody counted them. `lines` are empty where `left_out` says why
    the change is not shown."""

    path: str
    how: How
    added: int | None = None
    removed: int | None = None
    size: int | None = None
    lines: list[DiffLine] = []
    left_out: str = ""


class Diff(Struct, frozen=True, kw_only=True):
    """`base` is in words; `is_cut`: there are more files than are listed."""

    base: str
    files: list[FileChange]
    is_cut: bool


def workspace_diff(workspace: Path, hide: Hide) -> Diff:
    """Raises `SortieError` or `OSError` where git cannot tell. Blocks."""
    return _Comparison(workspace, hide).diff()


class _Comparison:
    def __init__(self, workspace: Path, hide: Hide) -> None:
        self._until = time.monotonic() + SECONDS
        self._hide = hide
        self._workspace = workspace
        self._env: Mapping[str, str] = {}

    def diff(self) -> Diff:
        checkout = self._opened()
        commit, words = self._base(checkout)
        with self._own(checkout):
            base = commit or self._call("hash-object", "-t", "tree", "/dev/null").decode("ascii").strip()
            self._look_at_all()
            untracked = self._paths("ls-files", "--others", "--exclude-standard")
            self._add(path for path in untracked[:MOST_FILES] if not path.endswith("/"))
            files = self._files(base, set(untracked))
            told = {file.path for file in files}
            files += [_untold(path) for path in untracked if path not in told]
            is_cut = len(files) > MOST_FILES
            del files[MOST_FILES:]
            texts = self._texts(base, _few_enough(files))
        room = _Room(MOST_LINES_OF_ALL, MOST_BYTES_OF_ALL)
        return Diff(base=words, files=[self._shown(file, texts, room) for file in files], is_cut=is_cut)

    def _opened(self) -> Checkout:
        """The repository whose directory this is. One that lies elsewhere must know of it: else whoever can write
        here could show what is in any repository."""
        place = self._workspace / ".git"
        is_own = stat.S_ISDIR(place.lstat().st_mode)
        if is_own:
            refuse_irregular(place)
        checkout = open_checkout(self._workspace, self._left())
        if is_own:
            is_own = checkout.git_dir == place.resolve() and checkout.common_dir == checkout.git_dir
        else:
            with open_directory(checkout.git_dir) as directory:
                back = read_bounded(directory, "gitdir", _LONGEST_POINTER)
            is_own = Path(os.fsdecode(back.strip())) == checkout.root / ".git"
        if not is_own or not checkout.objects.is_relative_to(checkout.common_dir):
            raise SortieError(f"{place} points to another repository.")
        return replace(checkout, excludes=checkout.read_excludes(self._left()))

    def _base(self, checkout: Checkout) -> tuple[str, str]:
        """The commit where the work began, and what it is in words; empty where the repository has none."""
        for name in _BASES:
            with suppress(GitError):
                found = checkout.git("merge-base", name, "HEAD", fine=(0, 1), seconds=self._left())
                if commit := found.decode("ascii").strip():
                    branch = name.removeprefix("refs/remotes/").removesuffix("/HEAD")
                    return commit, f"{commit[:12]}, where it branched off {branch}"
        with suppress(GitError):
            asked = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
            found = checkout.git(*asked, fine=(0, 1), seconds=self._left())
            if commit := found.decode("ascii").strip():
                return commit, f"{commit[:12]}, the last commit"
        return "", "an empty directory"

    @contextmanager
    def _own(self, checkout: Checkout) -> Iterator[None]:
        """Calls of git from here on: its objects and a copy of its index, but settings and a place for new objects
        of our own."""
        with private_git_dir(checkout.object_format, checkout.excludes.content) as own:
            with (own / "info" / "attributes").open("ab") as attributes:
                attributes.write(b"* !diff\n")  # what is binary is seen, not said
            if index := self._index(checkout):
                index.write(own / "index")
            self._env = {
                "GIT_DIR": str(own),
                "GIT_COMMON_DIR": str(own),
                "GIT_WORK_TREE": str(checkout.root),
                "GIT_OBJECT_DIRECTORY": str(own / "objects"),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(checkout.objects),
                "GIT_INDEX_FILE": str(own / "index"),
            }
            yield

    def _index(self, checkout: Checkout) -> IndexFile | None:
        with suppress(OSError), open_directory(checkout.git_dir) as directory:
            return read_index(directory, "index")
        return None

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise GitError(f"Comparing the files took longer than {SECONDS:g} seconds.")
        return left

    def _call(self, *arguments: str, given: bytes = b"", fine: tuple[int, ...] = (0,)) -> bytes:
        return git(
            self._workspace,
            *("-c", f"core.bigFileThreshold={_BIG}", *arguments),
            env=self._env,
            given=given,
            fine=fine,
            seconds=self._left(),
            most=MOST_SAID,
        )

    def _look_at_all(self) -> None:
        """Also at files that the index says need not be looked at, where they are there."""
        hidden = [path[2:] for path in self._paths("ls-files", "-t") if path.startswith("S ")]
        found = [path for path in hidden if os.path.lexists(self._workspace / path)]
        if found:
            self._call("update-index", "--no-skip-worktree", "-z", "--stdin", given=_listed(found))
        self._call("update-index", "-q", "--really-refresh", fine=(0, 1))

    def _add(self, paths: Iterable[str]) -> None:
        """So that they are compared as new files; one that went meanwhile costs the text of all."""
        with suppress(GitError):
            options = ("--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._call("add", *options, given=_listed(paths))

    def _paths(self, *arguments: str) -> list[str]:
        ours = (f"{OUR_DIRECTORY}/", f"{OUR_DIRECTORY}.lock")
        found = os.fsdecode(self._call(*arguments, "-z")).split("\0")
        return [path for path in found if path and not path.startswith(ours)]

    def _files(self, base: str, untracked: set[str]) -> list[FileChange]:
        hows = os.fsdecode(self._call(*_DIFF, "--name-status", "-z", base)).split("\0")
        how_of = dict(zip(hows[1::2], hows[::2], strict=False))
        found = []
        for count in os.fsdecode(self._call(*_DIFF, "--numstat", "-z", base)).split("\0"):
            added, _, rest = count.partition("\t")
            removed, _, path = rest.partition("\t")
            if path and path.split("/", 1)[0] != OUR_DIRECTORY:
                found.append(self._file(path, how_of.get(path, "M"), added, removed, path in untracked))
        return found

    def _file(self, path: str, how: str, added: str, removed: str, is_untracked: bool) -> FileChange:
        size = self._size(path)
        is_binary = not added.isdecimal()
        lines = 0 if is_binary else int(added) + int(removed)
        left_out = ""
        if is_binary:
            left_out = "it is binary, or larger than 1 MiB"
        elif how[:1] == "M" and not lines:
            left_out = "only its permissions changed"
        elif how[:1] == "T":
            left_out = "it became another kind of file"
        elif size is not None and size > LARGEST_SHOWN:
            left_out = f"it is larger than {LARGEST_SHOWN >> 10} KiB"
        elif lines > MOST_LINES:
            left_out = f"more than {MOST_LINES:,} lines changed"
        return FileChange(
            path=path,
            how="untracked" if is_untracked else _HOWS.get(how[:1], "modified"),
            added=None if is_binary else int(added),
            removed=None if is_binary else int(removed),
            size=size,
            left_out=left_out,
        )

    def _size(self, path: str) -> int | None:
        with suppress(OSError, ValueError):
            return (self._workspace / path).lstat().st_size
        return None

    def _texts(self, base: str, paths: Sequence[str]) -> dict[str, list[DiffLine]]:
        if not paths:
            return {}
        try:
            output = self._call(*_DIFF, base, "--", *paths)
        except GitError:
            return {}
        return _parsed(output.decode("utf-8", "replace"), paths)

    def _shown(self, file: FileChange, texts: Mapping[str, list[DiffLine]], room: _Room) -> FileChange:
        """As text that can stand anywhere, where there is room for it."""
        path, found = self._hide(path_text(file.path)), texts.get(file.path)
        lines = room.take(DiffLine(one.kind, _harmless(self._hide(one.text))) for one in found or ())
        if found is None or lines is None:
            return replace(file, path=path, left_out=file.left_out or _TOO_MUCH)
        return replace(file, path=path, lines=lines)


class _Room:
    """How much may still be shown."""

    def __init__(self, lines: int, size: int) -> None:
        self._lines = lines
        self._size = size

    def take(self, lines: Iterable[DiffLine]) -> list[DiffLine] | None:
        """All of them, or None where they are too many: they are looked at no further than that."""
        taken: list[DiffLine] = []
        size = 0
        for line in lines:
            taken.append(line)
            size += len(line.text.encode("utf-8", "replace"))
            if len(taken) > self._lines or size > self._size:
                return None
        self._lines -= len(taken)
        self._size -= size
        return taken


def _few_enough(files: Iterable[FileChange]) -> list[str]:
    """Those that git is asked about: of what is too much it need not tell."""
    asked: list[str] = []
    room = MOST_LINES_OF_ALL
    for file in files:
        lines = (file.added or 0) + (file.removed or 0)
        if not file.left_out and lines <= room and len(asked) < MOST_SHOWN:
            asked.append(file.path)
            room -= lines
    return asked


def _listed(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _untold(path: str) -> FileChange:
    why = "it is a repository of its own" if path.endswith("/") else "it cannot be compared now"
    return FileChange(path=path, how="untracked", left_out=why)


def path_text(path: str) -> str:
    """Whatever bytes the name of a file has."""
    return escape(os.fsencode(path).decode("utf-8", "replace"))


def _harmless(line: str) -> str:
    return "\t".join(map(escape, line.split("\t")))


def _parsed(output: str, paths: Sequence[str]) -> dict[str, list[DiffLine]]:
    """git tells of the files in the order in which it counted their lines; nothing where it told of others."""
    parts: list[list[DiffLine]] = []
    is_head = True
    for line in output.split("\n"):
        if line.startswith("diff --git "):
            parts.append([])
            is_head = True
        elif parts and line.startswith("@@"):
            parts[-1].append(DiffLine("@", line))
            is_head = False
        elif parts and not is_head and line[:1] in ("+", "-", " ", "\\"):
            parts[-1].append(DiffLine(line[0], line[1:]))
    return dict(zip(paths, parts, strict=True)) if len(parts) == len(paths) else {}
