"""Decisions that stand only in the mailbox: each belongs into the work log, where everybody finds it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..finding import Finding
from ..worklog.events import events_of
from ..worklog.log import Worklog
from .message import Message
from .parse import Mailbox

ONLY_IN_MAIL = "decision only in mail"
_ASKING = ("decision-required", "approval-required", "approval")
_VERDICT = re.compile(r"\b(?:approved|rejected|deferred|declined)\b", re.I)
_DECIDED = re.compile(r"^[ \t>*_-]{0,8}(?:decision|decided)[*_]{0,2}:[*_]{0,2}[ \t]*\S", re.I | re.M)
_SHORTEST_SUBJECT = 8


def decisions_only_in_mail(mail: Mailbox, log: Worklog) -> list[Finding]:
    """The newest message first. A decision is in the work log where one there names the message or its subject."""
    told = [
        " ".join([event.subject, *event.links, *_texts(event.payload)]).casefold()
        for event in events_of(log)
        if event.event_type == "decision.recorded"
    ]
    return [
        Finding(
            kind=ONLY_IN_MAIL,
            subject=card.message.id,
            line=mail.line_of(card.start),
            owner=card.message.sender,
            sentence=f"{card.message.id} ({card.message.subject}) has a decision that the work log does not have.",
        )
        for card in mail.newest_first
        if records_a_decision(card.message) and not any(_names(text, card.message) for text in told)
    ]


def records_a_decision(message: Message) -> bool:
    """An answer with a verdict to a question that asked for one; or a line that says what was decided."""
    if _DECIDED.search(message.body) or any(_DECIDED.search(ack.text) for ack in message.acks):
        return True
    return message.type in _ASKING and any(_VERDICT.search(ack.text) for ack in message.acks)


def _names(decision: str, message: Message) -> bool:
    subject = message.subject.casefold()
    return message.id.casefold() in decision or (len(subject) >= _SHORTEST_SUBJECT and subject in decision)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
