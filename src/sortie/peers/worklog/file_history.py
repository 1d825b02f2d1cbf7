"""The versions of one file that git knows: commits with their parents, and the file in each. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from ...errors import SortieError
from ..turns.git import GitError, git

# For one call of git.
PATIENCE = 120.0
# How much of the history is held in memory at once, and so the largest version that is looked at.
LARGEST = 64 * 1024 * 1024
_REFLOG = 1000
_FORMAT = "--format=%H%x00%P%x00%an%x00%aI%x00%s"
_NO = (0, 1, 128)


class Commit(Struct, frozen=True, kw_only=True):
    """`parents` are the nearest commits before it that touch the file, or merges."""

    name: str
    parents: tuple[str, ...] = ()
    author: str = ""
    date: str = ""
    subject: str = ""


class Dropped(Struct, frozen=True, kw_only=True):
    """A commit that the branch had and no branch has any more; `move` is what took the branch away from it."""

    commit: Commit
    move: str
    by: str


class Version(Struct, frozen=True, kw_only=True):
    """The file in one commit."""

    blob: str
    size: int


class FileHistory:
    """Of one path. Raises `SortieError` where there is no repository, or git fails or takes too long."""

    def __init__(self, path: Path) -> None:
        self._directory, self._name = path.absolute().parent, path.name
        try:
            self.is_shallow = self._git("rev-parse", "--is-shallow-repository").strip() == b"true"
        except GitError as error:
            if "not a git repository" not in error.message:
                raise
            raise SortieError(
                f"{self._directory} is in no git repository.",
                fix="Compare two files: `sortie worklog verify OLD NEW`.",
            ) from error

    def tip(self, revision: str) -> str | None:
        """The commit of that name; None where there is none, as before the first commit."""
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return self._git(*asked, fine=_NO).decode().strip() or None

    def commits(self, revision: str) -> list[Commit]:
        """Those that touch the file, and merges, each after its parents. `revision` may be a range."""
        limits = ("--full-history", "--topo-order", "--reverse", "--parents", _FORMAT)
        return _commits(self._git("rev-list", *limits, "--end-of-options", revision, "--", self._name))

    def dropped(self) -> list[Dropped]:
        """What the current branch pointed at once, as far as git remembers, and no branch leads to any more."""
        branch = self._git("symbolic-ref", "--quiet", "HEAD", fine=_NO).decode().strip()
        if not branch:
            return []
        limits = ("-g", "-s", "--no-show-signature", f"--max-count={_REFLOG}", "--format=%H%x00%gn%x00%gs")
        raw = self._git("log", *limits, "--end-of-options", branch, "--", fine=_NO)
        moves = [line.split("\0", 2) for line in _data_lines(raw)]
        names = list(dict.fromkeys(name for name, _, _ in moves))
        if not names:
            return []
        left = self._git("rev-list", _FORMAT, *names, "--not", "--branches")
        gone = {commit.name: commit for commit in _commits(left)}
        found = {}
        for (_, by, move), (name, _, _) in pairwise(moves):
            if name in gone:
                found[name] = Dropped(commit=gone[name], move=move, by=by)
        return list(found.values())

    def versions(self, commits: Sequence[str]) -> dict[str, Version]:
        """The file in each of these commits; those that do not have it are left out."""
        asked = "".join(f"{commit}:./{self._name}\n" for commit in commits)
        answers = self._git("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", given=asked)
        found = {}
        for commit, answer in zip(commits, answers.decode("utf-8", "replace").split("\n"), strict=False):
            match answer.split(" "):
                case [blob, "blob", size]:
                    found[commit] = Version(blob=blob, size=int(size))
        return found

    def contents(self, versions: Iterable[Version]) -> Iterator[bytes]:
        """What they say, in this order."""
        waiting: list[Version] = []
        for version in versions:
            if version.size > LARGEST:
                megabytes = LARGEST // (1024 * 1024)
                raise SortieError(
                    f"Git has a version of {self._name} with more than {megabytes} MiB.",
                    fix="Name a range of commits without it: --git FROM..TO.",
                )
            if sum(one.size for one in waiting) + version.size > LARGEST:
                yield from self._read(waiting)
                waiting = []
            waiting.append(version)
        yield from self._read(waiting)

    def _read(self, versions: Sequence[Version]) -> Iterator[bytes]:
        if not versions:
            return
        answer = self._git("cat-file", "--batch", given="".join(f"{version.blob}\n" for version in versions))
        at = 0
        for version in versions:
            at = answer.index(b"\n", at) + 1
            yield answer[at : at + version.size]
            at += version.size + 1

    def _git(self, *arguments: str, given: str = "", fine: tuple[int, ...] = (0,)) -> bytes:
        raw = given.encode("utf-8", "surrogateescape")
        return git(self._directory, *arguments, env={}, given=raw, fine=fine, seconds=PATIENCE, most=2 * LARGEST)


def _commits(raw: bytes) -> list[Commit]:
    found = []
    for line in _data_lines(raw):
        name, parents, author, date, subject = line.split("\0", 4)
        found.append(Commit(name=name, parents=tuple(parents.split()), author=author, date=date, subject=subject))
    return found


def _data_lines(raw: bytes) -> list[str]:
    """`rev-list` tells the name of a commit on a line of its own, before what was asked for."""
    lines = raw.decode("utf-8", "replace").split("\n")
    return [line for line in lines if "\0" in line]
