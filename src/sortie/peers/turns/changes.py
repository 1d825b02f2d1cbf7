"""What a turn changed: files by their content, whatever was committed, staged or switched meanwhile, and refs.

Files are compared as the two snapshots have them. A file that was moved is one deleted and one added.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...errors import SortieError
from .checkout import Checkout, Excludes, shown
from .git import GitError
from .objects import Entry
from .ref_changes import RefChange, commits_made, ref_changes
from .snapshot import Snapshot

How = Literal["added", "modified", "deleted", "type changed"]
_SHORT = 12
_NAMED = 5
_HOWS: dict[str, How] = {"A": "added", "M": "modified", "D": "deleted", "T": "type changed"}


class ChangedFile(Struct, frozen=True, kw_only=True):
    """`before` and `after` are None where there was nothing; or nothing that was kept: `unkept` says why."""

    path: str
    how: How
    before: Entry | None = None
    after: Entry | None = None
    unkept: str = ""


class ExcludesChange(Struct, frozen=True, kw_only=True):
    """A `person` changes rules of their own, for all repositories, whenever they like."""

    where: str
    person: bool = False


class Changes(Struct, frozen=True, kw_only=True):
    """`commits` are those that HEAD has now and no ref had before, newest first. `excludes` tells where the rules
    of what git ignores were changed besides `.gitignore` files. `remarks` are for people and tell what no rule
    forbids."""

    files: tuple[ChangedFile, ...] = ()
    commits: tuple[str, ...] = ()
    refs: tuple[RefChange, ...] = ()
    excludes: tuple[ExcludesChange, ...] = ()
    remarks: tuple[str, ...] = ()


def changes_between(before: Snapshot, after: Snapshot) -> Changes:
    """Raises where the objects of one of the snapshots are gone. Blocks."""
    files = tuple(sorted(_files(before, after), key=lambda file: file.path))
    excludes = tuple(_excludes(before.checkout.excludes, after.checkout.excludes))
    try:
        commits, refs = commits_made(before, after), ref_changes(before, after)
    except GitError as error:
        problem = f"What became of branches and commits cannot be told: {error.message}"
        return Changes(files=files, excludes=excludes, remarks=(*after.problems, problem))
    remarks = (*after.problems, *_remarks(before, after, commits, refs))
    return Changes(files=files, commits=commits, refs=refs, excludes=excludes, remarks=remarks)


def _files(before: Snapshot, after: Snapshot) -> Iterator[ChangedFile]:
    unkept = {one.path: one for one in before.left_out}
    unkept_after = {one.path: one for one in after.left_out}
    told = set()
    for file in _tree_changes(after.checkout, before.tree, after.tree):
        old, new = unkept.get(file.path), unkept_after.get(file.path)
        if one := new or old:
            # What is in one tree alone may be on both sides all the same.
            how: How = "added" if not (file.before or old) else "modified" if file.after or new else "deleted"
            file = replace(file, how=how, unkept=one.why)  # noqa: PLW2901 - the same change, known better
        told.add(file.path)
        yield file
    for path in (unkept.keys() | unkept_after.keys()) - told:
        old, new = unkept.get(path), unkept_after.get(path)
        if old and new and old.mark != new.mark:
            yield ChangedFile(path=path, how="modified", unkept=new.why)
        elif not old and new:
            yield ChangedFile(path=path, how="added", unkept=new.why)
        elif old and not new:
            yield ChangedFile(path=path, how="deleted", unkept=old.why)


def _excludes(before: Excludes, after: Excludes) -> Iterator[ExcludesChange]:
    if before.repository != after.repository:
        yield ExcludesChange(where="info/exclude")
    if before.named != after.named:
        yield ExcludesChange(where="core.excludesFile")
    elif before.person != after.person:
        yield ExcludesChange(where=after.named or "the file for all repositories", person=not after.named)


def _tree_changes(checkout: Checkout, before: str, after: str) -> Iterator[ChangedFile]:
    try:
        output = checkout.own_git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", before, after)
    except GitError as error:
        raise SortieError(
            f"The files before and after the turn cannot be compared: {error.message}",
            fix=f"Look for damage: git -C {checkout.root} fsck",
        ) from error
    words = iter(output.split(b"\0"))
    for about in words:
        if about:
            old_mode, new_mode, old_oid, new_oid, how = about.decode("ascii").removeprefix(":").split(" ")
            old, new = Entry(old_mode, old_oid), Entry(new_mode, new_oid)
            yield ChangedFile(
                path=os.fsdecode(next(words)),
                how=_HOWS[how[0]],
                before=None if how[0] == "A" else old,
                after=None if how[0] == "D" else new,
            )


def _remarks(
    before: Snapshot, after: Snapshot, commits: tuple[str, ...], refs: tuple[RefChange, ...]
) -> Iterator[str]:
    if before.branch != after.branch:
        then, now = (_branch(name) for name in (before.branch, after.branch))
        yield f"HEAD was on {then} before the turn and is on {now} now."
    if commits:
        count = f"{len(commits)} commit{'s' * (len(commits) != 1)}"
        named = ", ".join(oid[:_SHORT] for oid in commits[:_NAMED])
        more = ", …" * (len(commits) > _NAMED)
        yield f"The turn made {count} on {_branch(after.branch)}: {named}{more}."
    for change in refs:
        if not change.before and not change.is_ours:
            yield f"{change.called} is new."


def _branch(name: str) -> str:
    return f"the branch {shown(name.removeprefix('refs/heads/'))}" if name else "no branch"
