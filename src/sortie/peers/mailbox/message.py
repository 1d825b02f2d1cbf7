"""One message of a mailbox, and what is true of it: whose it is, whether it is open, who has not answered it yet.

Counts and lists are made by the predicates here and by no others, so they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from ...protocol.foreign_text import parse_time

Status = Literal["new", "acknowledged", "blocked", "actioned", "closed"]
Form = Literal["table", "bold", "plain", "rule"]

STATUSES: tuple[Status, ...] = ("new", "acknowledged", "blocked", "actioned", "closed")
DISPOSITIONS = ("resolved", "superseded", "withdrawn", "abandoned")
TYPES = ("notify", "request", "decision-required", "approval-required", "objection", "handoff-ready")
PRIORITIES = ("P0", "P1", "P2")
EVERYBODY = "all"
NONE = "none"

# Words of other tools and of older files. What is here as a disposition is closed with it.
_ALIASES: dict[str, Status] = {
    **{word: word for word in STATUSES},
    "unread": "new",
    "open": "new",
    "read": "acknowledged",
    "ack": "acknowledged",
    "acked": "acknowledged",
    "replied": "actioned",
    **dict.fromkeys(DISPOSITIONS, "closed"),
}
_FIRST_WORD = re.compile(r"[\s*_`~]*([A-Za-z]+)(?:[^A-Za-z]{1,8}([A-Za-z]+))?")
_NUMBERED = re.compile(r"MSG-(?:[\w.]{1,60}-)??(\d{8})-(\d{3,12})")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


class Ack(Struct, frozen=True, kw_only=True, gc=False):
    """An answer on the card, by anybody, of any form. `actor` is empty where it does not say who."""

    actor: str = ""
    date: str = ""
    text: str = ""
    kind: Literal["ack", "reply"] = "ack"


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """As it stands in the file. What the card does not say has the default; `status_text` is the word it has."""

    id: str
    form: Form = "table"
    date: str = ""
    sender: str = ""
    recipients: tuple[str, ...] = ()
    type: str = "request"
    priority: str = "P2"
    related: str = ""
    context: str = ""
    closure_owner: str = ""
    review_scope: str = ""
    response_needed_by: str = ""
    status: Status = "new"
    status_text: str = ""
    disposition: str = ""
    subject: str = ""
    body: str = ""
    acks: tuple[Ack, ...] = ()
    others: tuple[tuple[str, str], ...] = ()  # fields that only other tools know

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        return {
            "id": self.id,
            "date": self.date,
            "from": self.sender,
            "to": list(self.recipients),
            "type": self.type,
            "priority": self.priority,
            "related": self.related,
            "context": self.context,
            "closure_owner": self.closure_owner,
            "response_needed_by": self.response_needed_by,
            "status": self.status,
            "disposition": self.disposition,
            "subject": self.subject,
            "body": self.body,
            "answers": [
                {"kind": ack.kind, "actor": ack.actor, "date": ack.date, "text": ack.text} for ack in self.acks
            ],
        }


@lru_cache(4096)
def folded(name: str) -> str:
    """A name for comparing: `Codex` is `codex`, and `Maintainer (relayed by Claude)` is the maintainer."""
    return name.partition("(")[0].strip(" \t\r\n*`_@").casefold()


def status_in(text: str) -> tuple[Status | None, str]:
    """Status and disposition that a status cell means; None for a word that nobody knows."""
    found = _FIRST_WORD.match(text)
    if not found:
        return None, ""
    first, second = (word.casefold() if word else "" for word in found.groups())
    status = _ALIASES.get(first)
    if status != "closed":
        return status, ""
    return status, next((word for word in (first, second) if word in DISPOSITIONS), "")


def is_open(message: Message) -> bool:
    return message.status != "closed"


def is_to_all(message: Message) -> bool:
    return any(folded(name) == EVERYBODY for name in message.recipients)


def is_for(message: Message, agent: str) -> bool:
    """What goes to all goes to everybody but its sender."""
    name = folded(agent)
    if any(folded(recipient) == name for recipient in message.recipients):
        return True
    return is_to_all(message) and folded(message.sender) != name


def is_from(message: Message, agent: str) -> bool:
    return folded(message.sender) == folded(agent)


def receivers(message: Message, agents: Iterable[str]) -> list[str]:
    """Those whom it is for, by name; `agents` says who all are."""
    named = [name for name in message.recipients if folded(name) != EVERYBODY]
    if not is_to_all(message):
        return named
    known = {folded(name) for name in named}
    return named + [name for name in agents if folded(name) not in known and not is_from(message, name)]


def state_of(message: Message, agent: str) -> Status:
    """How far this receiver is. A message to several has a status of its own for each of them, by their answers;
    the card shows the one that is least far."""
    if message.status == "closed" or not has_several(message):
        return message.status
    name, own = folded(agent), message.status
    for ack in message.acks:
        if folded(ack.actor) == name and (status := status_in(ack.text)[0]) and status != "closed":
            own = status
    return max(own, message.status, key=STATUSES.index) if message.status != "blocked" else own


def has_several(message: Message) -> bool:
    return len(message.recipients) > 1 or is_to_all(message)


def is_unread(message: Message, agent: str) -> bool:
    """For this agent, and not answered by it in any way. To have been shown it is no answer."""
    return is_open(message) and is_for(message, agent) and state_of(message, agent) == "new"


def unread_by(messages: Iterable[Message], agents: Iterable[str]) -> dict[str, list[Message]]:
    """For each of these agents what is unread by it, in the order of the messages; by the folded name."""
    found: dict[str, list[Message]] = {folded(agent): [] for agent in agents}
    for message in messages:
        to = message.recipients
        # Nearly all messages are to one: for those it is quick to see.
        if len(to) == 1 and (name := folded(to[0])) != EVERYBODY:
            if message.status == "new" and name in found:
                found[name].append(message)
            continue
        for name in found:
            if is_unread(message, name):
                found[name].append(message)
    return found


def sent_at(message: Message) -> float | None:
    """When it was sent. A day without a time counts as its end: a turn of that day may have begun before."""
    exact = parse_time(message.date)
    if exact is not None:
        return exact
    found = _DAY.search(message.date) or _DAY.search(_day_of_id(message.id))
    if not found:
        return None
    return parse_time(f"{found[0]}T23:59:59Z")


def order(message: Message) -> str:
    """A text that is greater for the newer of two messages: by the number that the ID has, else by the date."""
    found = _NUMBERED.fullmatch(message.id)
    if found:
        return f"{found[1]}{found[2]:0>12}"
    day = _DAY.search(message.date)
    return f"{''.join(day.groups()) if day else '00000000'}{0:012}"


def number_on(day: str, message_id: str) -> int:
    """The number of an ID of this day, as in 20261118; 0 for every other one."""
    found = _NUMBERED.fullmatch(message_id)
    return int(found[2]) if found and found[1] == day else 0


def from_to(message: Message) -> str:
    return f"{message.sender} -> {', '.join(message.recipients)}"


def _day_of_id(message_id: str) -> str:
    found = _NUMBERED.fullmatch(message_id)
    return f"{found[1][:4]}-{found[1][4:6]}-{found[1][6:]}" if found else ""
