"""What a turn did to branches, tags and our own refs; what would be lost by it gets a ref that stays.

Not every change is against a rule: this says what happened, and whether something old is on no branch any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .checkout import Checkout, shown
from .git import GitError
from .snapshot import Snapshot, refs_of

_MOST_COMMITS = 1000
_STASH = "refs/stash"


class RefChange(Struct, frozen=True, kw_only=True):
    """`before` and `after` are empty where there was none. `lost` says that what it had been is on no branch and no
    tag any more; `kept` is the ref of ours that has it."""

    name: str
    before: str
    after: str
    lost: bool = False
    kept: str = ""

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("refs/sortie/")

    @property
    def called(self) -> str:
        for kind, noun in (("refs/heads/", "branch"), ("refs/tags/", "tag")):
            if self.name.startswith(kind):
                return f"The {noun} {shown(self.name.removeprefix(kind))}"
        return "The stash" if self.name == _STASH else f"The ref {shown(self.name)}"


def commits_made(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Those on HEAD now that no ref had before, newest first; of very many, the newest."""
    if not after.head or after.head == before.head:
        return ()
    known = {before.head, *before.refs.values()} - {""}
    return _reachable(after.checkout, after.head, known, _MOST_COMMITS)


def ref_changes(before: Snapshot, after: Snapshot) -> tuple[RefChange, ...]:
    """Where one of the two was recalled, of those refs alone that both know."""
    old, new = before.refs, after.refs
    names = old.keys() & new.keys() if before.recalled or after.recalled else old.keys() | new.keys()
    return tuple(
        _judged(after, RefChange(name=name, before=old.get(name, ""), after=new.get(name, "")))
        for name in sorted(names)
        if old.get(name) != new.get(name) and _concerns(after.checkout, name, old)
    )


def keep_lost(after: Snapshot, changes: tuple[RefChange, ...]) -> Iterator[RefChange]:
    """The same changes, each with what we keep of it. Refs of ours are put back."""
    checkout = after.checkout
    for change in changes:
        if change.is_ours or change.lost:
            lost = f"{checkout.refs}/lost/{after.number}/{change.name.removeprefix('refs/')}"
            kept = change.name if change.is_ours else lost
            with suppress(GitError):  # the object is gone, or the repository cannot be written: nothing is kept
                name = set_ref(checkout, kept, change.before, elsewhere=not change.is_ours and after.number)
                change = replace(change, kept=name)  # noqa: PLW2901 - the same change, with what became of it
        yield change


def set_ref(checkout: Checkout, name: str, commit: str, *, elsewhere: int | Literal[False] = False) -> str:
    """The name of the ref that has the commit now. Where `name` cannot be had, because somebody put another ref or
    a lock into its way, it is one `elsewhere`, for the turn of that number. A symbolic ref is replaced.
    """
    others = [] if elsewhere is False else [f"{checkout.refs}/reverted{mark}{elsewhere}-" for mark in "/-"]
    try:
        checkout.git("update-ref", "--no-deref", name, commit)
        return name
    except GitError:
        for other in others:
            with suppress(GitError):
                return set_ref(checkout, f"{other}{secrets.token_hex(4)}", commit)
        raise


def _concerns(checkout: Checkout, name: str, known: Mapping[str, str]) -> bool:
    """New refs of ours are our own doing, and so are those of another working tree."""
    if not name.startswith("refs/sortie/"):
        return True
    return name in known and name.startswith(
        tuple(f"{checkout.refs}/{kind}" for kind in ("turns/", "reverted/", "reverted-", "lost/"))
    )


def _judged(after: Snapshot, change: RefChange) -> RefChange:
    if not change.before or change.is_ours:
        return change
    if change.name == _STASH:
        # An older entry is kept by the log of the stash, which no other ref shows.
        return replace(change, lost=not change.after)
    refs = refs_of(after.checkout) if after.recalled else after.refs
    now = {after.head, *(oid for name, oid in refs.items() if not name.startswith("refs/sortie/"))} - {""}
    return replace(change, lost=bool(_reachable(after.checkout, change.before, now, 1)))


def _reachable(checkout: Checkout, tip: str, without: set[str], most: int) -> tuple[str, ...]:
    given = "\n".join((tip, *(f"^{oid}" for oid in sorted(without)), ""))
    options = ("--ignore-missing", f"--max-count={most}", "--stdin")
    return tuple(checkout.git("rev-list", *options, given=given.encode("ascii")).decode("ascii").split())
