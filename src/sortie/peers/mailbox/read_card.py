"""Reads one card, in any form, into a message: fields, body, and every answer on it. Fails on no text.

The same bytes give the same message, so what was read once is not read again: a mailbox of thousands of messages
changes by one of them at a time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...protocol.foreign_text import shortened
from .fields import KNOWN, head_of
from .message import DISPOSITIONS, PRIORITIES, Ack, Form, Message, folded, from_to, order, status_in
from .quoting import cell, cell_text, unquoted

_HEADING = re.compile(r"### (MSG-[\w.\-]{1,120})[ \t]*(?:[:—\u2013-][ \t]*)?(.*)")
_ID = re.compile(r"[\w.\-]{1,120}\Z")
_ARROW = re.compile("->|→|=>")
_BETWEEN_NAMES = re.compile(r"[,+/&;]|(?<=\s)and(?=\s)")
# `**Ack:** text`, `Ack: text`, `**Ack (Codex):** text`, `**Ack**`, `- Ack: text`.
_LABEL = re.compile(
    r" {0,3}(?:[-*+] )?(\*\*)?(Ack|Reply|Summary|Body)(?: \(([^()\n]{0,200})\))?(?::?\*\*:?|:)[ \t]*(.*)", re.I
)
_BULLET = re.compile(r"[ \t]*[-*+] +")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T[0-9:.]{1,20}(?:Z|[+-]\d\d:?\d\d)?)?")
_CLOSED = re.compile(r"Closed \(([a-z]{1,20})\)", re.I)
# As `write_card` writes the head. It says nothing that the slow way would not say.
_OURS = re.compile(
    r"### (MSG-\d{8}-\d{3,12})\n\n\| Field \| Value \|\n\|---\|---\|\n\| Status \| ([^\n]*) \|\n\| ID \| \1 \|\n"
    + "".join(rf"\| {name} \| ([^\n]*) \|\n" for name in ("Date", "From", "To", "Type", "Priority", "Related"))
    + r"(?:\| Context \| ([^\n]*) \|\n)?\| Closure owner \| ([^\n]*) \|\n"
    + r"(?:\| Review scope \| ([^\n]*) \|\n)?\| Response needed by \| ([^\n]*) \|\n"
    + r"\| Subject \| ([^\n]*) \|\n(?!\|)"
)
_QUOTED = re.compile(r"\n\*\*Summary\*\*\n\n((?:>[^\n]*\n)+)\n?\Z")
_OUR_KEYS = (
    *("id", "status", "date", "sender", "recipients", "type", "priority", "related", "context"),
    *("closure_owner", "review_scope", "response_needed_by", "subject"),
)
_RULES = ("---", "***", "___")
_BETWEEN = re.compile(" (?:[—\u2013|]|--) ")
_MEMORY = 16_384
_LARGEST_REMEMBERED = 4096
_LONGEST_SUBJECT = 160  # in a row
_LONGEST_NAME = 3  # in words


class Reading(Struct, frozen=True, kw_only=True, gc=False):
    """A message, its place among others, its row of the open queue, and what was not understood, by offset."""

    message: Message
    order: str
    row: bytes
    remarks: tuple[tuple[int, str], ...] = ()


def read_card(raw: bytes) -> Reading:
    """A card from its heading, or from the rule above one that has none, to the next."""
    return remembered(raw) if len(raw) <= _LARGEST_REMEMBERED else _read(raw)


@lru_cache(_MEMORY)
def remembered(raw: bytes) -> Reading:
    return _read(raw)


def _read(raw: bytes) -> Reading:
    text = raw.decode("utf-8", "replace")
    remarks: list[tuple[int, str]] = []
    ours = _OURS.match(text)
    message = _read_ours(text, ours) if ours else _read_any(text, remarks)
    if status_in(message.status_text)[0] is None:
        said = message.status_text[:60]
        remarks.append((0, f"has the status `{said}`, which nobody knows" if said else "has no status"))
    return Reading(message=message, order=order(message), row=queue_row(message), remarks=tuple(remarks))


def _read_ours(text: str, found: re.Match[str]) -> Message:
    values = [cell_text(value) if value else "" for value in found.groups()]
    quoted = _QUOTED.match(text, found.end())
    body, acks = (unquoted(quoted[1]), ()) if quoted else _answers(text[found.end() :])
    return _message(dict(zip(_OUR_KEYS, values, strict=True)), body, acks, "table", ())


def _read_any(text: str, remarks: list[tuple[int, str]]) -> Message:
    heading = _HEADING.match(text)
    head = head_of(text)
    values: dict[str, str] = {}
    others = []
    for field in head.fields:
        key = KNOWN.get(field.name)
        if not key:
            others.append((field.name, field.value))
        elif key in values:
            remarks.append((field.line, f"has a second field `{field.name}`; the first one counts"))
        else:
            values[key] = field.value
    if not head.fields:
        remarks.append((0, "has no fields that were understood"))
    if heading:
        values["id"] = heading[1].rstrip(".-")
        values["subject"] = values.get("subject") or heading[2].strip()
    body, acks = _answers(text[head.end :])
    message = _message(values, body, acks, head.form if heading else "rule", tuple(others))
    return message if message.id else _with_an_id(message)


def _message(
    values: dict[str, str], body: str, acks: tuple[Ack, ...], form: Form, others: tuple[tuple[str, str], ...]
) -> Message:
    sender, to = values.get("sender", ""), values.get("recipients", "")
    if not to and (arrow := _ARROW.search(sender)):
        sender, to = sender[: arrow.start()], sender[arrow.end() :]
    status, disposition = status_in(values.get("status", ""))
    if status == "closed" and not disposition:
        disposition = _disposition_in(acks)
    priority = values.get("priority", "").strip("`* ").upper()[:2]
    return Message(
        id=found[0] if (found := _ID.match(values.get("id", "").strip("`* "))) else "",
        form=form,
        date=values.get("date", ""),
        sender=sender.strip("`* "),
        recipients=tuple(name for part in _BETWEEN_NAMES.split(to) if (name := part.strip("`* \t"))),
        type=values.get("type", "").strip("`* ").casefold() or "request",
        priority=priority if priority in PRIORITIES else "P2",
        related=values.get("related", ""),
        context=values.get("context", ""),
        closure_owner=values.get("closure_owner", "").strip("`* "),
        review_scope=values.get("review_scope", ""),
        response_needed_by=values.get("response_needed_by", ""),
        status=status or "new",
        status_text=values.get("status", ""),
        disposition=disposition,
        subject=values.get("subject", ""),
        body=body,
        acks=acks,
        others=others,
    )


def _with_an_id(message: Message) -> Message:
    """Old cards have none: it follows from what never changes in them, so it is the same whatever else is added."""
    said = "\0".join((message.sender, *message.recipients, message.date, message.subject))
    return replace(message, id=f"OLD-{hashlib.sha256(said.encode()).hexdigest()[:8]}")


def acks_in(line: str) -> tuple[Ack, ...]:
    """What an answer says that was put on a card as this line."""
    return _answers(f"**Ack:** {line[2:]}" if line.startswith("- ") else line)[1]


def queue_row(message: Message) -> bytes:
    subject = shortened(message.subject, _LONGEST_SUBJECT)
    return f"| {message.id} | {cell(from_to(message))} | {message.priority} | {cell(subject)} |".encode()


def _disposition_in(acks: tuple[Ack, ...]) -> str:
    for ack in reversed(acks):
        if (found := _CLOSED.match(ack.text)) and found[1].casefold() in DISPOSITIONS:
            return found[1].casefold()
    return ""


def _answers(rest: str) -> tuple[str, tuple[Ack, ...]]:
    """The body, and the answers that stand between or after its lines."""
    body: list[str] = []
    answers: list[tuple[Ack, list[str]]] = []  # each with the lines that go on with it
    part: Literal["body", "ack", "reply"] = "body"
    who = ""
    for line, is_code in _with_fences(rest):
        label = None if is_code else _LABEL.match(line)
        if label:
            kind, who, text = label[2].casefold(), label[3] or "", label[4]
            part = "ack" if kind == "ack" else "reply" if kind == "reply" else "body"
            if part == "body":
                body += [text] if text else []
            elif text or part == "reply":
                answers.append((_ack(text, part, who), []))
                # An answer on the line of its label is that line; what follows is told apart by its own form.
                part = "body" if part == "ack" else part
        elif part == "body" or (line.strip() in _RULES and not is_code):
            part = "body"
            body.append(line)
        elif part == "ack":
            _continue_ack(answers, line, who)
        elif answers:
            answers[-1][1].append(line)
    while body and body[-1].strip() in ("", *_RULES):
        body.pop()  # what stands between this card and the next
    acks = [replace(ack, text="\n".join([ack.text, *more]).strip("\n")) if more else ack for ack, more in answers]
    return unquoted("\n".join(body)), tuple(ack for ack in acks if ack.actor or ack.text.strip())


def _continue_ack(answers: list[tuple[Ack, list[str]]], line: str, who: str) -> None:
    """A line below `Ack:`: an answer where it says who and when, else more of the one before."""
    bullet = _BULLET.match(line)
    text = line[bullet.end() :] if bullet else line.strip()
    if not text:
        return
    ack = _ack(text, "ack", who)
    last = answers[-1][0] if answers else None
    if ack.date or last is None or last.kind != "ack" or (bullet and not last.date):
        answers.append((ack, []))
    else:
        answers[-1][1].append(line.strip())


def _ack(text: str, kind: Literal["ack", "reply"], who: str) -> Ack:
    """`actor — date — text`, with any of the dashes or pipes that people put between; also `actor date — text` and
    `Closed (resolved) — actor — date — text`."""
    breaks = list(islice(_BETWEEN.finditer(text), 3))
    starts = [0, *(found.end() for found in breaks)]
    ends = [*(found.start() for found in breaks), len(text)]
    parts = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    for at, part in enumerate(parts):
        found = _DATE.search(part)
        before = part[: found.start()].strip(" ,(") if found else ""
        if not found or (before and (at or len(before.split()) > _LONGEST_NAME)):
            continue
        earlier = parts[: max(at - 1, 0)]
        rest = text[starts[at + 1] :] if at + 1 < len(starts) else ""
        said = " — ".join(word for word in (*earlier, part[found.end() :].lstrip(" .,;:)"), rest.strip()) if word)
        return Ack(actor=before or (parts[at - 1] if at else who), date=found[0], text=said, kind=kind)
    return Ack(actor=_named(who, parts), text=text.strip(), kind=kind)


def _named(who: str, parts: list[str]) -> str:
    """Without a date: the name in the label, or what stands before a dash if it can be one."""
    if who:
        return who
    return parts[0] if len(parts) > 1 and len(parts[0].split()) <= _LONGEST_NAME and folded(parts[0]) else ""


def _with_fences(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is code. A fence that is never closed is none."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    may_have = "```" in text or "~~~" in text
    marks = [(at, found) for at, line in enumerate(lines) if may_have and (found := _FENCE.match(line))]
    code: set[int] = set()
    opened: tuple[int, str] | None = None
    for at, mark in marks:
        run, info = mark[1], mark[2].strip()
        if opened is None:
            opened = (at, run) if run[0] == "~" or "`" not in info else None
        elif run[0] == opened[1][0] and len(run) >= len(opened[1]) and not info:
            code.update(range(opened[0], at + 1))
            opened = None
    yield from ((line, at in code) for at, line in enumerate(lines))
