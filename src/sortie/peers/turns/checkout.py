"""The repository of a shared checkout, and calls of git with its files and objects but settings of our own.

Snapshots are taken with settings of our own. So neither filters, attributes, excludes, flags of the index nor any
other setting that an agent makes in the repository decides what we see, and nothing of the repository is written
but objects and the refs below `refs/sortie`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...errors import SortieError
from ...protocol.foreign_text import escape, shortened
from ...protocol.safefiles import explain, open_directory, read_bounded
from ...protocol.session_files import DIRECTORY as OUR_DIRECTORY
from ..place import state_directory
from .git import SECONDS, GitError, git
from .private_git import StateFiles, private_git_dir

_READ_BY_GIT = ("HEAD", "index", "config", "config.worktree", "packed-refs", "shallow", "info/exclude")
_MOST_EXCLUDES = 1 << 20


class Damaged(SortieError):
    """The repository is not what it was when the turn began, or does not answer as one."""


class Excludes(Struct, frozen=True, kw_only=True):
    """What git ignores besides what the `.gitignore` files say: by the person's own rules, and by those of the
    repository. `named` is the file with the former, where the settings of the repository say which one it is."""

    person: bytes = b""
    named: str = ""
    repository: bytes = b""

    @property
    def content(self) -> bytes:
        """With what we put into a checkout. Later rules win."""
        return b"\n".join((self.person, self.repository, f"/{OUR_DIRECTORY}/\n/{OUR_DIRECTORY}.lock\n".encode()))


class Checkout(Struct, frozen=True, kw_only=True):
    """`root` is the top of the working tree; `git_dir` is that of this working tree, `common_dir` that of all trees
    of the repository. `refs` is where ours begin. `standing` tells whether all of it is still the same.
    `excludes` are fixed for the turn."""

    root: Path
    git_dir: Path
    common_dir: Path
    objects: Path
    object_format: str
    refs: str
    standing: tuple[tuple[int, int], ...]
    excludes: Excludes = Excludes()

    @property
    def state(self) -> StateFiles:
        return StateFiles(self.git_dir)

    @property
    def nothing(self) -> str:
        """The id of no object."""
        return "0" * (64 if self.object_format == "sha256" else 40)

    def git(
        self,
        *arguments: str,
        given: bytes = b"",
        fine: tuple[int, ...] = (0,),
        index: Path | None = None,
        seconds: float = SECONDS,
    ) -> bytes:
        """In the repository itself, with its configuration."""
        env = {
            "GIT_DIR": str(self.git_dir),
            "GIT_COMMON_DIR": str(self.common_dir),
            "GIT_WORK_TREE": str(self.root),
        }
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        return git(self.root, *arguments, env=env, given=given, fine=fine, seconds=seconds)

    def own_git(
        self,
        *arguments: str,
        given: bytes = b"",
        fine: tuple[int, ...] = (0,),
        index: Path | None = None,
        seconds: float = SECONDS,
        literal: bool = True,
    ) -> bytes:
        """The same files and objects, without the configuration, the index and the refs of the repository. There is
        a command that cannot take paths as `literal`."""
        with private_git_dir(self.object_format, self.excludes.content) as own:
            env = {
                "GIT_DIR": str(own),
                "GIT_COMMON_DIR": str(own),
                "GIT_WORK_TREE": str(self.root),
                "GIT_OBJECT_DIRECTORY": str(self.objects),
                "GIT_INDEX_FILE": str(index or own / "index"),
                "GIT_LITERAL_PATHSPECS": "1" if literal else "",
            }
            return git(self.root, *arguments, env=env, given=given, fine=fine, seconds=seconds)

    def prepare(self) -> Checkout:
        """Make our state directory, and fix for the turn that follows what is ignored."""
        try:
            self.state.make()
        except OSError as error:
            raise SortieError(f"Our state in {self.git_dir} cannot be written: {explain(error)}.") from error
        return replace(self, excludes=self.read_excludes())

    def refuse_changed(self, known: str) -> None:
        """Raise where another directory has taken the place of the root or of the repository, which had the commit
        `known`, and where git would wait for ever for what stands in place of its files."""
        try:
            there = _git_dir(self.root), _common_dir(self.git_dir), _standing(self._places())
        except (OSError, SortieError) as error:
            reason = explain(error) if isinstance(error, OSError) else error.message
            raise Damaged(f"The repository of {self.root} is gone or damaged: {reason}") from error
        if there != (self.git_dir, self.common_dir, self.standing):
            raise Damaged(f"Another repository has taken the place of the one of {self.root}.")
        if not os.path.lexists(self.git_dir / "sortie") and not self._has(known):
            # A new directory may have the number of an old one, but nothing of what was in that.
            raise Damaged(f"The repository of {self.root} is gone or damaged: it has nothing of the turn any more.")
        for directory in {self.git_dir, self.common_dir}:
            refuse_irregular(directory)

    def _has(self, commit: str) -> bool:
        try:
            self.own_git("cat-file", "-e", commit)
        except GitError:
            return False
        return True

    def _places(self) -> tuple[Path, ...]:
        return self.root, self.git_dir, self.common_dir, self.objects

    def read_excludes(self, seconds: float = SECONDS) -> Excludes:
        home = {name: os.environ.get(name, "") for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")}
        env = {"GIT_DIR": str(self.git_dir), **home}
        options = ("--show-scope", "--type=path", "--get", "core.excludesFile")
        answer = git(self.root, "config", *options, env=env, fine=(0, 1), seconds=seconds)
        scope, _, named = os.fsdecode(answer).removesuffix("\n").partition("\t")
        settings = Path(home["XDG_CONFIG_HOME"] or f"{home['HOME']}/.config")
        return Excludes(
            person=_read(self.root / named if named else settings / "git" / "ignore"),
            named=named if scope in ("local", "worktree") else "",
            repository=_read(self.common_dir / "info" / "exclude"),
        )


def refuse_irregular(git_dir: Path) -> None:
    """Raise where git would wait for ever for what stands in place of a file that it reads."""
    for place in (git_dir / name for name in _READ_BY_GIT):
        if os.path.lexists(place) and not place.is_file():
            raise Damaged(f"{place} is not a regular file.", fix="Remove it, and put back what was there.")


def open_checkout(root: Path, seconds: float = SECONDS) -> Checkout:
    """The repository whose working tree has its top at `root`; one that has it elsewhere is refused."""
    root = root.resolve()
    git_dir = _git_dir(root)
    env = {"GIT_DIR": str(git_dir)}
    wanted = ("--git-common-dir", "--git-path", "objects", "--show-object-format", "--show-toplevel")
    try:
        answer = git(root, "rev-parse", "--path-format=absolute", *wanted, env=env, seconds=seconds)
    except GitError as error:
        fix = f"Look at it with: git -C {root} status"
        raise Damaged(f"{root} has no repository that git can use: {error.message}", fix=fix) from error
    common, objects, object_format, top = answer.removesuffix(b"\n").split(b"\n")
    if Path(os.fsdecode(top)).resolve() != root:
        raise SortieError(
            f"The working tree of the repository in {root} is {escape(os.fsdecode(top))}, by its core.worktree.",
            fix="Work there, or unset core.worktree.",
        )
    common_dir, objects_dir = Path(os.fsdecode(common)).resolve(), Path(os.fsdecode(objects)).resolve()
    return Checkout(
        root=root,
        git_dir=git_dir,
        common_dir=common_dir,
        objects=objects_dir,
        object_format=object_format.decode("ascii"),
        # Working trees of one repository have one set of refs, and each counts its own turns.
        refs="refs/sortie" if git_dir == common_dir else f"refs/sortie/worktrees/{git_dir.name}",
        standing=_standing((root, git_dir, common_dir, objects_dir)),
    )


def _git_dir(root: Path) -> Path:
    """Our state lies in it; by `.git`, which is a directory, a link to one, or a file that names one."""
    state = state_directory(root)
    if state.parent != root:
        return state.parent.resolve()
    if os.path.lexists(root / ".git"):
        raise Damaged(f"{root / '.git'} is no git directory and names none.", fix="Repair it, or clone it again.")
    raise _no_repository(root)


def _common_dir(git_dir: Path) -> Path:
    """By `commondir`, which only the git directory of a further working tree has."""
    named = git_dir / "commondir"
    return (git_dir / os.fsdecode(_read(named).strip())).resolve() if os.path.lexists(named) else git_dir


def _no_repository(root: Path) -> SortieError:
    for above in root.parents:
        if os.path.lexists(above / ".git"):
            return SortieError(
                f"{root} is a directory inside the repository {above}, and turns are taken in the whole of it.",
                fix=f"Keep the documents of the peers in {above}, or make {root} a repository of its own.",
            )
    if root.is_dir():
        return SortieError(f"{root} is no git repository.", fix=f"Make it one: git -C {root} init")
    return SortieError(f"There is no directory {root}.")


def _standing(places: Iterable[Path]) -> tuple[tuple[int, int], ...]:
    return tuple((found.st_dev, found.st_ino) for found in map(Path.lstat, places))


def _read(path: Path) -> bytes:
    """At most so much of it that can be a list of patterns; nothing where there is no such file."""
    try:
        with open_directory(path.parent.resolve()) as directory:
            return read_bounded(directory, path.name, _MOST_EXCLUDES, linked=True)
    except OSError:
        return b""


def shown(path: str) -> str:
    """A path as it can stand in a sentence, whatever its name is."""
    return f"`{shortened(escape(path), 200)}`"
