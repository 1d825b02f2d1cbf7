"""Writes a message as a card with a field/value table, and changes a card in place: its status, one more answer.

Nothing that a message says ends its card or looks like another part of it: values stay in their cells, and the body
is a quotation. What a card holds besides its status and its answers stands in one piece, so that it can be found.
"""

from __future__ import annotations

import re

from ...errors import SortieError
from ...protocol.foreign_text import time_text
from .fields import head_of
from .message import NONE, Form, Message
from .quoting import cell, harmless, quoted

LONGEST_SUBJECT = 200
LONGEST_BODY = 64 * 1024
LONGEST_ANSWER = 2_000
BETWEEN = " — "
# Above the answers of a card; we write the first.
_HEADINGS = ("**Ack**", "**Ack:**", "**Ack**:")

_TRAILING_RULE = re.compile(r"\n[ \t]*(?:-{3,}|\*{3,}|_{3,})[ \t\r\n]*\Z")


def one_line(text: str, most: int, called: str) -> str:
    line = " ".join(harmless(text).split())
    if len(line) > most:
        raise SortieError(
            f"{called} has {len(line):,} characters, and more than {most:,} are no {called.split()[-1]} to read.",
            fix="Put the rest into the body, or into a file that it names.",
        )
    return line


def body_text(text: str) -> str:
    """The body as it is written; what is longer than a person reads belongs into a file."""
    body = harmless(text).strip("\n")
    if len(body) > LONGEST_BODY:
        raise SortieError(
            f"The body has {len(body):,} characters, and a message at most {LONGEST_BODY:,}.",
            fix="Put it into a file, and name that file in the body.",
        )
    return body if body.strip() else ""


def piece_of(message: Message) -> str:
    """What of a card never changes, from the row with its ID to the end of its body."""
    rows = [
        ("ID", message.id),
        ("Date", message.date),
        ("From", message.sender),
        ("To", ", ".join(message.recipients)),
        ("Type", message.type),
        ("Priority", message.priority),
        ("Related", message.related or NONE),
        *([("Context", message.context)] if message.context else []),
        ("Closure owner", message.closure_owner or NONE),
        *([("Review scope", message.review_scope)] if message.review_scope else []),
        ("Response needed by", message.response_needed_by or NONE),
        ("Subject", message.subject),
    ]
    table = "".join(f"| {name} | {cell(value)} |\n" for name, value in rows)
    return f"{table}\n**Summary**\n\n{quoted(message.body)}" if message.body else table


def card_around(message_id: str, status: str, piece: str) -> str:
    return f"### {message_id}\n\n| Field | Value |\n|---|---|\n| Status | {status} |\n{piece}\n"


def card_of(message: Message) -> str:
    return card_around(message.id, message.status, piece_of(message))


def answer_line(actor: str, at: float, said: str, *, form: Form, closed: str = "") -> str:
    """One line for the card: who, when, what. `closed` is the disposition of a message that this closes.

    Whoever writes to a file uses `new_answer`: no two lines in it may be the same.
    """
    moment = time_text(at)
    if thousandths := round(at % 1 * 1000):
        moment = moment.replace("Z", f".{thousandths:03}Z")
    words = (f"Closed ({closed})", actor, moment, said) if closed else (actor, moment, said)
    line = BETWEEN.join(word for word in words if word)
    label = {"table": "- ", "bold": "**Ack:** "}.get(form, "Ack: ")
    return label + line


def new_answer(data: bytes, actor: str, at: float, said: str, *, form: Form, closed: str = "") -> str:
    """The line for a card of this file, and one that the file does not have: by nothing else could be told which of
    two answers is gone. Of two that say the same in the same second, the later one says the time more exactly."""
    moment = float(int(at))
    while (line := answer_line(actor, moment, said, form=form, closed=closed)).encode() in data:
        moment = round(moment + 0.001, 3)
    return line


def changed_card(raw: bytes, *, status: str, answer: str, eol: bytes = b"\n") -> bytes:
    """The same card with another status, in its place, and with an answer below the others. An empty status leaves
    the one it has; every other byte stays."""
    text = raw.decode("utf-8", "surrogateescape")
    end = eol.decode()
    if status:
        text = _with_status(text, status, end)
    rule = _TRAILING_RULE.search(text)
    content = len(text[: rule.start() if rule else len(text)].rstrip())
    before, after = text[:content], text[content:]
    last = before[before.rfind("\n") + 1 :]
    if answer.startswith("- "):
        is_first = last.strip() in _HEADINGS
        is_below = last.startswith("- ") and any(f"\n{heading}" in before for heading in _HEADINGS)
        lead = end if is_below else end + end if is_first else f"{end}{end}**Ack**{end}{end}"
    else:
        lead = end if last.startswith(("**Ack", "Ack:")) else end + end
    return (before + lead + answer + (after or end)).encode("utf-8", "surrogateescape")


def _with_status(text: str, status: str, end: str) -> str:
    head = head_of(text)
    for field in head.fields:
        if field.name == "status":
            return text[: field.start] + status + text[field.end :]
    row = {"table": f"| Status | {status} |", "bold": f"**Status:** {status}"}.get(head.form, f"Status: {status}")
    at = head.fields[0].line if head.fields else text.find("\n") + 1 or len(text)
    lead = end if text[at - 1 : at] not in ("\n", "") else ""
    return f"{text[:at]}{lead}{row}{end}{'' if head.fields else end}{text[at:]}"
