"""A message before it is sent: what its sender may say, checked, and made into the message that is written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from ...errors import SortieError
from ...protocol.foreign_text import time_text
from ...workflow.problems import did_you_mean, listed
from ..author import Author
from .deadlines import PHRASES, moment_in
from .message import NONE, PRIORITIES, TYPES, Message, folded
from .write_card import LONGEST_SUBJECT, body_text, one_line

_LONGEST_FIELD = 500
_BREAKS_A_NAME = re.compile(r"[,+/&;|—]|->|→|(?:^|\s)and(?:\s|$)")


class Draft(Struct, frozen=True, kw_only=True):
    to: tuple[str, ...]
    subject: str
    body: str = ""
    type: str = "request"
    priority: str = "P2"
    related: str = ""
    context: str = ""
    closure_owner: str = ""
    response_needed_by: str = ""


def message_of(draft: Draft, message_id: str, author: Author, recipients: Sequence[str], at: float) -> Message:
    """Raises with a sentence about the first thing that cannot be sent."""
    subject = one_line(draft.subject, LONGEST_SUBJECT, "The subject")
    if not subject:
        raise SortieError("A message needs a subject.", fix="Say in a few words what it is about.")
    kind = one_of(draft.type, TYPES, "type of message")
    for name in (author.name, *recipients):
        if _BREAKS_A_NAME.search(name):
            raise SortieError(f'The name "{name}" cannot stand in a message.', fix="Use letters, digits, - and _.")
    return Message(
        id=message_id,
        date=time_text(at),
        sender=author.name,
        recipients=tuple(recipients),
        type=kind,
        priority=one_of(draft.priority, PRIORITIES, "priority"),
        related=one_line(draft.related, _LONGEST_FIELD, "The field `related`") or NONE,
        context=one_line(draft.context, _LONGEST_FIELD, "The field `context`"),
        closure_owner=_closure_owner(draft.closure_owner, kind),
        response_needed_by=_deadline(draft.response_needed_by, at),
        status="new",
        status_text="new",
        subject=subject,
        body=body_text(draft.body),
    )


def one_of(word: str, words: Sequence[str], called: str) -> str:
    for known in words:
        if known.casefold() == word.strip().casefold():
            return known
    close = did_you_mean(word, words) or "."
    raise SortieError(f'There is no {called} "{word[:40]}"{close}', fix=f"Choose {listed(words)}.")


def _closure_owner(named: str, kind: str) -> str:
    owner = one_line(named, _LONGEST_FIELD, "The closure owner")
    return owner or (NONE if kind == "notify" else "sender")


def _deadline(wanted: str, at: float) -> str:
    said = " ".join(wanted.split())
    if not said or folded(said) == NONE:
        return NONE
    if said.casefold() in PHRASES:
        return said.casefold()
    moment = moment_in(said)
    if moment is None:
        raise SortieError(
            f'"{said[:60]}" is no time by which an answer can be needed.',
            fix=f"Give a time with its zone, as 2026-01-31T12:00:00Z, or {listed(list(PHRASES))}.",
        )
    if moment <= at:
        raise SortieError(f"{said} is over already.", fix="Give a time that is still to come.")
    return time_text(moment)
