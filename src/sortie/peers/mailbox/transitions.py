"""Which moves a message may make, and who may make them. Refusals say what is legal, and for whom.

    new           → acknowledged, actioned    by a receiver
    acknowledged  → actioned, blocked         by a receiver
    blocked       → acknowledged, actioned    by a receiver
    all of them   → closed                    by the closure owner, else the sender; always by the maintainer
    closed        → nothing: what comes up again is a new message

To close as `withdrawn` is up to the sender, as `abandoned` to the maintainer; anybody closes a `notify`.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from ...errors import SortieError
from ...workflow.problems import did_you_mean, listed
from ..author import Author, AuthorityError
from .message import (
    DISPOSITIONS,
    NONE,
    Message,
    Status,
    folded,
    has_several,
    is_for,
    is_from,
    receivers,
    state_of,
)

_LEGAL: dict[Status, tuple[Status, ...]] = {
    "new": ("acknowledged", "actioned", "closed"),
    "acknowledged": ("actioned", "blocked", "closed"),
    "blocked": ("acknowledged", "actioned", "closed"),
    "actioned": ("closed",),
    "closed": (),
}
_BY_CARE: tuple[Status, ...] = ("new", "blocked", "acknowledged", "actioned")
_VERBS = {"acknowledged": "acknowledge", "actioned": "action", "blocked": "block", "closed": "close"}


class People(Struct, frozen=True):
    """Who all are, for messages to all, and who of them is the maintainer."""

    agents: tuple[str, ...]
    maintainer: str


def check_move(message: Message, to: Status, actor: Author, people: People, disposition: str = "") -> None:
    """Raises where this move is not legal, or not this actor's."""
    if message.status == "closed":
        raise SortieError(
            f"{message.id} is closed, and nothing leaves that.",
            fix="Send a new message that names it in `--related`.",
        )
    if to == "closed":
        _check_close(message, actor, people, disposition)
        return
    if not is_for(message, actor.name):
        raise AuthorityError(
            f"Only a receiver may {_VERBS[to]} {message.id}, which is for {_named(message.recipients)}.",
            fix=legal_moves(message, people),
        )
    state = state_of(message, actor.name)
    if to not in _LEGAL[state]:
        raise SortieError(f"{message.id} is {state} and cannot be {to}.", fix=legal_moves(message, people))


def is_there_already(message: Message, to: Status, actor: Author) -> bool:
    """Whether this receiver has made that very move: to ask for it twice does no harm."""
    return to != "closed" and is_for(message, actor.name) and state_of(message, actor.name) == to


def status_after(message: Message, to: Status, actor: Author, people: People) -> Status:
    """What the card shows then. Of a message to several it is how far the last of them is."""
    if to == "closed" or not has_several(message):
        return to
    others = [name for name in receivers(message, people.agents) if folded(name) != folded(actor.name)]
    return least_far({to, *(state_of(message, name) for name in others)})


def least_far(states: Collection[Status]) -> Status:
    """What the others have to know first: somebody has not seen it, somebody waits, somebody is at it."""
    return next((status for status in _BY_CARE if status in states), "new")


def legal_moves(message: Message, people: People) -> str:
    """What may become of it, and by whom, as a sentence."""
    here = [word for word in _LEGAL[message.status] if word != "closed"]
    closers = listed(closers_of(message, people))
    if not here:
        return f"It can only be closed, by {closers}."
    return f"It can be {listed(here)} by {_named(message.recipients)}, or closed by {closers}."


def closers_of(message: Message, people: People) -> list[str]:
    """Who may close it as resolved or superseded."""
    owner = message.closure_owner
    if message.type == "notify":
        return ["anybody"]
    if folded(owner) == "maintainer":
        return [people.maintainer]
    first = message.sender if folded(owner) in ("", NONE, "sender") else owner
    return [first] if folded(first) == folded(people.maintainer) else [first or "the sender", people.maintainer]


def _check_close(message: Message, actor: Author, people: People, disposition: str) -> None:
    if disposition not in DISPOSITIONS:
        raise SortieError(
            f'A message is not closed as "{disposition}"{did_you_mean(disposition, DISPOSITIONS) or "."}',
            fix=f"Close it as {listed(DISPOSITIONS)}.",
        )
    is_maintainer = actor.role == "maintainer"
    if disposition == "withdrawn":
        allowed, who = is_from(message, actor.name), [message.sender]
    elif disposition == "abandoned":
        allowed, who = is_maintainer, [people.maintainer]
    else:
        who = closers_of(message, people)
        allowed = is_maintainer or who == ["anybody"] or folded(actor.name) in map(folded, who)
        allowed = allowed and not (folded(actor.name) == folded(people.maintainer) and not is_maintainer)
    if not allowed:
        raise AuthorityError(
            f"Only {listed(who)} may close {message.id} as {disposition}, and this is {actor.name}.",
            fix=f"Ask {who[0]}, in an answer or a new message." if who[0] else "",
        )


def _named(names: tuple[str, ...]) -> str:
    return listed(names) if names else "nobody"
