"""The state of a shared checkout before and after a turn: kept as commits below `refs/sortie/turns/<number>`.

Index, HEAD, branches, stash and files of the repository stay as they are. The commit carries what is needed to go
on after a crash: where HEAD was, and what is not in the tree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...errors import SortieError
from ...protocol.safefiles import explain, open_directory
from ..place import Place
from .checkout import Checkout, Excludes, open_checkout
from .documents import DOCUMENTS, NOTHING, Documents, Rules, path_of, read_documents, rules_of
from .git import GitError
from .hidden import hidden_files
from .objects import blob, entries_of
from .private_git import IndexFile, read_index
from .working_tree import LeftOut, WorkingTree, read_working_tree

KEPT_TURNS = 50
When = Literal["before", "after"]

_TOLD_LEFT_OUT = 1000
_TOLD_IGNORED = 1000
_INDEX = "index"
_NO_INDEX = IndexFile(content=b"", time=0)


class Snapshot(Struct, frozen=True, kw_only=True):
    """`head` is the commit of HEAD, `branch` the ref that HEAD is; each is empty where there is none.

    `rules` are those of before the turn, also in the snapshot after it. `problems` says what could not be learned;
    only a snapshot after a turn has any. Of one that was `recalled` only the ref of HEAD is known. `look` is what
    the next look may begin with; `staged` is the index of the repository before the turn, None if it is not kept.
    `ignored` is what git ignored then, None where it is not known.
    """

    number: int
    checkout: Checkout
    commit: str
    tree: str
    head: str
    branch: str
    refs: Mapping[str, str]
    left_out: tuple[LeftOut, ...]
    documents: Documents
    rules: Rules
    problems: tuple[str, ...] = ()
    recalled: bool = False
    look: IndexFile | None = None
    staged: IndexFile | None = None
    ignored: Mapping[str, str] | None = None


class _Told(Struct, frozen=True, kw_only=True):
    """What the message of a commit says, besides a line for people."""

    head: str = ""
    branch: str = ""
    left_out: tuple[LeftOut, ...] = ()
    journals: dict[str, int] = {}
    person_excludes: str = ""
    named_excludes: str = ""
    repository_excludes: str = ""
    staged: str = ""
    ignored: dict[str, str] | None = None

    @property
    def excludes(self) -> Excludes:
        return Excludes(
            person=self.person_excludes.encode("latin-1", "replace"),
            named=self.named_excludes,
            repository=self.repository_excludes.encode("latin-1", "replace"),
        )


class _Position(Struct, frozen=True, kw_only=True):
    head: str = ""
    branch: str = ""
    refs: Mapping[str, str] = {}


def take_before(place: Place, number: int) -> Snapshot:
    """The state as a turn finds it. Raises where it cannot be kept: then no turn should begin. Blocks."""
    checkout = open_checkout(place.root).prepare()
    rules, documents = rules_of(place), read_documents(place)
    position = _forget_old(checkout, _position(checkout), number)
    looked = read_working_tree(checkout, _inside(place, checkout), last=checkout.state.read(_INDEX))
    with _explained(checkout):
        staged = _staged(checkout)
        # What stands there after a turn is not believed, but what we hold until then.
        checkout.state.clear()
        if staged is not None:
            checkout.state.write(_index_before(number), staged)
    told = f"The checkout before turn {number}"
    parents = [position.head] if position.head else []
    commit = _commit(checkout, told, position, looked, documents, parents, staged)
    name = f"{checkout.refs}/turns/{number}/before"
    checkout.git("update-ref", "--no-deref", name, commit)
    return Snapshot(
        number=number,
        checkout=checkout,
        commit=commit,
        tree=looked.tree,
        head=position.head,
        branch=position.branch,
        refs={**position.refs, name: commit},
        left_out=looked.left_out,
        documents=documents,
        rules=rules,
        look=looked.index,
        staged=staged,
        ignored=looked.ignored,
    )


def take_after(place: Place, before: Snapshot, agent: str = "") -> Snapshot:
    """The state as the turn of `agent` left it. Raises where nothing of it can be learned. Blocks."""
    checkout, number = before.checkout, before.number
    checkout.refuse_changed(before.commit)
    with suppress(OSError):  # told when it is written
        checkout.state.clear(_index_before(number))
    problems = []
    position = _Position(head=before.head, branch=before.branch, refs=before.refs)
    try:
        position = _position(checkout)
    except GitError as error:
        problems.append(f"What became of branches and commits cannot be told: {error.message}")
    documents = read_documents(place)
    looked, problem = _look_after(before, _inside(place, checkout), agent)
    problems += [problem] if problem else []
    try:
        checkout = replace(checkout, excludes=checkout.read_excludes())
    except GitError as error:
        problems.append(f"Whether the rules of what git ignores were changed cannot be told: {error.message}")
    told = f"The checkout after turn {number}"
    heads = [position.head] if position.head not in ("", before.head) else []
    try:
        commit = _commit(checkout, told, position, looked, documents, [before.commit, *heads])
    except GitError:
        # Parents that are gone do not keep us from telling what there is now.
        problems.append("Commits from before the turn are gone from the repository.")
        commit = _commit(checkout, told, position, looked, documents, [])
    name = f"{checkout.refs}/turns/{number}/after"
    try:
        checkout.git("update-ref", "--no-deref", name, commit)
    except GitError as error:
        problems.append(f"The state after the turn has no ref: {error.message}")
    try:
        checkout.state.make()
        if looked.index is not None:
            checkout.state.write(_INDEX, looked.index)
    except OSError as error:
        problems.append(f"Our state in {checkout.git_dir} cannot be written: {explain(error)}.")
    return Snapshot(
        number=number,
        checkout=checkout,
        commit=commit,
        tree=looked.tree,
        head=position.head,
        branch=position.branch,
        refs=position.refs,
        left_out=looked.left_out,
        documents=documents,
        rules=before.rules,
        problems=tuple(problems),
    )


def _look_after(before: Snapshot, wanted: list[str], agent: str) -> tuple[WorkingTree, str]:
    """With what the turn hid from git; and a sentence where that cannot be told."""
    checkout = before.checkout
    looked = read_working_tree(checkout, wanted, last=before.look)
    if before.ignored is None:
        return looked, "Files that were hidden by new rules of what git ignores are not told."
    ignored, trees = (before.ignored, looked.ignored), (before.tree, looked.tree)
    hidden = hidden_files(checkout, trees, ignored, before.rules.charter, agent)
    if hidden.files:
        looked = read_working_tree(checkout, [*wanted, *hidden.files], last=looked.index)
    return looked, hidden.problem


def recall(place: Place, number: int, when: When) -> Snapshot | None:
    """The snapshot of an earlier turn, from its commit; None where there is none any more. Blocks."""
    checkout = open_checkout(place.root)
    name = f"{checkout.refs}/turns/{number}/{when}"
    try:
        ids = checkout.git("rev-parse", f"{name}^{{commit}}", f"{name}^{{tree}}")
        commit, tree = ids.decode("ascii").split()
        message = checkout.own_git("cat-file", "commit", commit).rstrip(b"\n").rpartition(b"\n")[2]
        told = msgspec.convert(json.loads(message), _Told)
    except (GitError, ValueError, msgspec.MsgspecError):
        return None
    checkout = replace(checkout, excludes=told.excludes)
    paths = {tree_path(path_of(place, document), checkout.root): document for document in DOCUMENTS}
    kept = entries_of(checkout, tree, filter(None, paths))
    content = {paths[path]: blob(checkout, entry.oid) for path, entry in kept.items() if entry.is_file}
    journals = {document: told.journals.get(document, 0) for document in DOCUMENTS}
    links = {paths[path]: "a symbolic link" for path, entry in kept.items() if entry.is_link}
    instead = {document: links.get(document, NOTHING) for document in DOCUMENTS if document not in content}
    return Snapshot(
        number=number,
        checkout=checkout,
        commit=commit,
        tree=tree,
        head=told.head,
        branch=told.branch,
        refs={told.branch: told.head} if told.branch and told.head else {},
        left_out=told.left_out,
        documents=Documents(content=content, instead=instead, journals=journals),
        rules=rules_of(place, content.get("charter")),
        recalled=True,
        staged=_recalled_index(checkout, number, told.staged),
        ignored=told.ignored,
    )


def refs_of(checkout: Checkout) -> dict[str, str]:
    """The id behind each ref of this repository; those that tell of others are not its own."""
    refs = {}
    for line in checkout.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines():
        oid, _, name = os.fsdecode(line).partition(" ")
        if not name.startswith("refs/remotes/"):
            refs[name] = oid
    return refs


def _position(checkout: Checkout) -> _Position:
    refs = refs_of(checkout)
    branch = os.fsdecode(checkout.git("symbolic-ref", "--quiet", "HEAD", fine=(0, 1))).strip()
    head = refs.get(branch, "")
    if not branch:
        found = checkout.git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", fine=(0, 1, 128))
        head = found.decode("ascii").strip()
    return _Position(head=head, branch=branch, refs=refs)


def _commit(
    checkout: Checkout,
    told: str,
    position: _Position,
    looked: WorkingTree,
    documents: Documents,
    parents: Sequence[str],
    staged: IndexFile | None = None,
) -> str:
    about = _Told(
        head=position.head,
        branch=position.branch,
        left_out=looked.left_out[:_TOLD_LEFT_OUT],
        journals={name: size for name, size in documents.journals.items() if size},
        person_excludes=checkout.excludes.person.decode("latin-1"),
        named_excludes=checkout.excludes.named,
        repository_excludes=checkout.excludes.repository.decode("latin-1"),
        staged=staged.digest if staged else "",
        ignored=dict(looked.ignored) if len(looked.ignored) <= _TOLD_IGNORED else None,
    )
    message = f"{told}\n\n{json.dumps(msgspec.to_builtins(about))}\n"
    options = [word for parent in parents for word in ("-p", parent)]
    found = checkout.own_git("commit-tree", looked.tree, *options, given=message.encode("ascii"))
    return found.decode("ascii").strip()


def _index_before(number: int) -> str:
    """What is staged in the repository before this turn; that of the last turn is kept."""
    return f"index.before-{number}"


def _staged(checkout: Checkout) -> IndexFile | None:
    """The index of the repository, None where it has none that can be kept."""
    with suppress(FileNotFoundError), open_directory(checkout.git_dir) as directory:
        return read_index(directory, "index")
    return _NO_INDEX


def _recalled_index(checkout: Checkout, number: int, digest: str) -> IndexFile | None:
    found = _NO_INDEX if digest == _NO_INDEX.digest else checkout.state.read(_index_before(number))
    return found if found is not None and found.digest == digest else None


def _forget_old(checkout: Checkout, position: _Position, number: int) -> _Position:
    """The refs of turns long past go; what a revert has kept stays for ever."""
    ours = f"{checkout.refs}/turns/"
    old = []
    for name in position.refs:
        turn = name.removeprefix(ours).split("/")[0]
        if name.startswith(ours) and turn.isdecimal() and int(turn) <= number - KEPT_TURNS:
            old.append(name)
    if not old:
        return position
    given = "".join(f"delete {name}\n" for name in old).encode("ascii")
    checkout.git("update-ref", "--no-deref", "--stdin", given=given)
    return replace(position, refs={name: oid for name, oid in position.refs.items() if name not in old})


def tree_path(path: Path, root: Path) -> str:
    """The document as a path of the tree; empty where it lies outside."""
    resolved = path.parent.resolve() / path.name
    return resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else ""


def _inside(place: Place, checkout: Checkout) -> list[str]:
    return [path for document in DOCUMENTS if (path := tree_path(path_of(place, document), checkout.root))]


@contextmanager
def _explained(checkout: Checkout) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SortieError(f"Our state in {checkout.git_dir} cannot be written: {explain(error)}.") from error
