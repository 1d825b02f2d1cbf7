"""Takes back what a turn did against the rules, and nothing else; what is taken back is kept first, under a ref.

The ref `refs/sortie/reverted/<number>` has the whole state after the turn, or another one, where somebody stands in
the way of that. Without it nothing is taken back. Files go back in the working tree and the index; commits stay as
they are. From work log and mailbox only what is against the rules goes. Whoever comes after a crash does all of it
once more, and finds done what was done.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ...errors import SortieError
from ..author import Author
from ..journal import Record
from ..place import Place
from ..shared_document import SharedDocument
from .changes import ChangedFile, Changes
from .checkout import Checkout, shown
from .documents import Document, path_of, written_since
from .git import GitError
from .look_back import LookedBack
from .mend import mend_mailbox, mend_worklog
from .objects import entries_of
from .private_git import IndexFile, private_directory
from .put_back import PutBack, directories_of, in_the_way
from .ref_changes import set_ref
from .review import MILD, judge_mailbox, judge_worklog
from .snapshot import Snapshot

ORCHESTRATOR = Author(name="sortie", role="orchestrator")
_NAMED = 200
_MENDED: tuple[Document, ...] = ("worklog", "mailbox")


class Reverted(Struct, frozen=True, kw_only=True):
    """`ref` has what was taken back; it is empty where there was nothing to do. `files` were put back whole, of
    `documents` only what was wrong went. `problems` says what stayed, and `remarks` what a person should know."""

    ref: str = ""
    files: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def revert(place: Place, looked: LookedBack, *, at: float) -> Reverted:
    """Raises where the state after the turn cannot be kept; then everything is as the turn left it. Blocks."""
    after, changes, review = looked.after, looked.facts.changes, looked.review
    if after is None:
        raise SortieError("Nothing was taken back: the repository was damaged in the turn, and so nothing is kept.")
    wanted = {*review.to_revert}
    wanted |= in_the_way(wanted, changes.files)
    files = [file for file in changes.files if file.path in wanted]
    mended = [name for name in _MENDED if any(one.kind not in MILD for one in getattr(review, name))]
    if not files and not mended:
        return Reverted()
    kept = _Kept(looked, after)
    kept.keep([*(file.path for file in files), *(path_of(place, name).name for name in mended)])
    before_tree = entries_of(after.checkout, looked.before.tree)
    there = PutBack(after.checkout, {above for path in before_tree for above in directories_of(path)})
    there.all_of(files)
    problems = [*there.problems, *_restore_index(after.checkout, looked.before.staged, there.done)]
    documents = []
    for name in mended:
        try:
            _mend(place, name, looked, kept, at)
            documents.append(path_of(place, name).name)
        except SortieError as error:
            problems.append(f"{path_of(place, name).name} could not be mended: {error.message}")
    return Reverted(
        ref=kept.name,
        files=tuple(sorted(there.done)),
        documents=tuple(documents),
        problems=tuple(problems),
        remarks=tuple(_remarks(changes, files)),
    )


class _Kept:
    """The ref that has what is taken back: a commit with all that is there after the turn, on top of what was there
    before it, and one more for each later version of a document that is mended."""

    def __init__(self, looked: LookedBack, after: Snapshot) -> None:
        self._checkout = after.checkout
        self._before = looked.before
        self._after = after
        self._agent = looked.facts.agent
        self.name = f"{after.checkout.refs}/reverted/{after.number}"

    def keep(self, what: Iterable[str]) -> None:
        parents = [self._before.commit]
        if tip := self._tip():
            commit, tree = tip
            if tree == self._after.tree or self._is_on_top_of(commit):
                self._set(commit)  # itself, not a branch that it may name
                return
            parents.append(commit)
        named = sorted({*what})
        lines = [f"Turn {self._after.number} of {self._agent}, as it was before this was taken back:", ""]
        lines += [shown(path) for path in named[:_NAMED]]
        if len(named) > _NAMED:
            lines.append(f"and {len(named) - _NAMED:,} more")
        try:
            self._commit(self._after.tree, parents, lines)
        except GitError as error:
            raise SortieError(
                f"Nothing of the turn was taken back, because it could not be kept: {error.message}",
                fix="Repair the repository, and take it back by hand.",
            ) from error

    def keep_document(self, path: str, content: bytes) -> None:
        """A version that somebody wrote after the turn had ended."""
        with private_directory() as own:
            index = own / "index"
            oid = self._checkout.own_git("hash-object", "-w", "--stdin", given=content).decode("ascii").strip()
            self._checkout.own_git("read-tree", self._after.tree, index=index)
            self._checkout.own_git("update-index", "--add", "--cacheinfo", f"100644,{oid},{path}", index=index)
            tree = self._checkout.own_git("write-tree", index=index).decode("ascii").strip()
            tip = self._tip()
            if tip and tip[1] != tree:
                self._commit(tree, [tip[0]], [f"{shown(path)}, as it was before it was mended"])

    def _tip(self) -> tuple[str, str] | None:
        with suppress(GitError):
            found = self._checkout.git("rev-parse", f"{self.name}^{{commit}}", f"{self.name}^{{tree}}")
            commit, tree = found.decode("ascii").split()
            return commit, tree
        return None

    def _is_on_top_of(self, commit: str) -> bool:
        """Whether the state after the turn is among what the ref has."""
        with suppress(GitError):
            listed = self._checkout.git("rev-list", "--first-parent", "--format=%T", "--max-count=100", commit)
            return self._after.tree in listed.decode("ascii").split()
        return False

    def _commit(self, tree: str, parents: Iterable[str], lines: Iterable[str]) -> None:
        options = [word for parent in parents for word in ("-p", parent)]
        given = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        commit = self._checkout.own_git("commit-tree", tree, *options, given=given).decode("ascii").strip()
        self._set(commit)

    def _set(self, commit: str) -> None:
        self.name = set_ref(self._checkout, self.name, commit, elsewhere=self._after.number)


def _restore_index(checkout: Checkout, old: IndexFile | None, paths: Iterable[str]) -> Iterator[str]:
    """The entries of these files as they were before the turn; a sentence where that cannot be done."""
    wanted = {os.fsencode(path) for path in paths}
    if not wanted:
        return
    if old is None:
        yield "The files are back, but what was staged of them is not known any more."
        return
    try:
        with private_directory() as own:
            if old.content:
                old.write(own / "index")
            was = _staged(checkout.git("ls-files", "-s", "-z", index=own / "index"), wanted)
        now = _staged(checkout.git("ls-files", "-s", "-z"), wanted)
        lines = []
        for path in sorted(wanted):
            if was.get(path) != now.get(path):
                lines.append(f"0 {checkout.nothing}\t".encode() + path)
                lines += was.get(path, [])
        if lines:
            checkout.git("update-index", "-z", "--index-info", given=b"".join(line + b"\0" for line in lines))
    except GitError as error:
        yield f"The files are back, but what is staged of them is not as it was: {error.message}"


def _staged(listed: bytes, wanted: set[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for line in listed.split(b"\0"):
        path = line.partition(b"\t")[2]
        if path in wanted:
            found.setdefault(path, []).append(line)
    return found


def _mend(place: Place, document: Document, looked: LookedBack, kept: _Kept, at: float) -> None:
    old, ended = (one.content.get(document) for one in (looked.before.documents, looked.facts.after))
    if old is None:
        raise SortieError("There was none before the turn.")
    path = path_of(place, document)

    def edit(now: bytes) -> bytes:
        # Whoever wrote since the turn ended is on record by now, and not to be taken for the agent.
        facts = replace(looked.facts, records={document: written_since(place, document, looked.before.documents)})
        if document == "worklog":
            mended = mend_worklog(old, now, partial(judge_worklog, facts))
        else:
            mended = mend_mailbox(old, now, partial(judge_mailbox, facts), facts.rules.roster.names)
        if now not in (ended, mended):
            kept.keep_document(looked.facts.paths.get(document) or path.name, now)
        return mended

    subject = f"mended after turn {looked.before.number} of {looked.facts.agent}"
    record = Record(at=at, author=ORCHESTRATOR.name, role=ORCHESTRATOR.role, subject=subject)
    with SharedDocument(path).held() as held:
        now = held.read()
        if edit(now) != now:
            held.rewrite(edit, record)


def _remarks(changes: Changes, files: list[ChangedFile]) -> Iterator[str]:
    if changes.commits and files:
        yield "The commits of the turn stay as they are: the files are back in the working tree, as changes to it."
