"""The fields at the head of a card, in each form that people write them, with the place of every value.

Table rows (`| Status | new |`), bold lines (`**Status:** new`) and plain lines (`Status: new`). Both who reads a
card and who changes its status in place find the fields here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from .message import Form
from .quoting import cell_text, cells, is_rule_row

# By the name that is compared; `to` and `from` may share a line as `From: X -> Y`.
KNOWN = {
    "message id": "id",
    "id": "id",
    "date": "date",
    "from": "sender",
    "to": "recipients",
    "type": "type",
    "priority": "priority",
    "related": "related",
    "context": "context",
    "closure owner": "closure_owner",
    "review scope": "review_scope",
    "response needed by": "response_needed_by",
    "due": "response_needed_by",
    "status": "status",
    "subject": "subject",
}
# Fields of one of the tools only, kept as they are.
_FOREIGN = ("mode", "revision token", "thread", "part")
_LABELS = ("ack", "reply", "summary", "body")

_BOLD = re.compile(r" {0,3}(?:[-*+] )?\*\*([A-Za-z][A-Za-z ]{0,30}?) ?(?::\*\*|\*\* ?:)[ \t]*(.*)")
_PLAIN = re.compile(r" {0,3}(?:[-*+] )?([A-Za-z][A-Za-z ]{0,30}?) ?:(?:[ \t]+(.*)|$)")


class Field(Struct, frozen=True):
    """`start` and `end` are where the value stands in the text of the card."""

    name: str
    value: str
    start: int
    end: int
    line: int  # where its line begins


class Head(Struct, frozen=True):
    """The fields of a card in their order; `end` is where the line after the last of them begins."""

    form: Form
    fields: tuple[Field, ...]
    end: int


def head_of(text: str) -> Head:
    """The fields of a card, below its heading or the rule that it begins with."""
    start = _line_end(text, 0) if text.startswith(("### ", "---")) else 0
    at = start
    for begin, end in _lines(text, start):
        if text[begin:end].strip():
            break
        at = end
    else:
        return Head("plain", (), len(text))
    first = text[at : _line_end(text, at)]
    if first.lstrip(" ").startswith("|"):
        return _table(text, at)
    pattern, form = (_BOLD, "bold") if _BOLD.match(first) else (_PLAIN, "plain")
    return _labelled(text, start, pattern, "bold" if form == "bold" else "plain")


def _table(text: str, start: int) -> Head:
    fields: list[Field] = []
    begin = start
    while text.startswith("|", begin) or text[begin : begin + 4].lstrip(" ").startswith("|"):
        end = _line_end(text, begin)
        row = text[begin:end]
        found = cells(row.rstrip("\r\n"))
        if found and not (row.lstrip(" |:")[:1] == "-" and is_rule_row(row)):
            name = _plain_name(row[slice(*found[0])])
            # A pipe that nobody escaped makes more cells than two; they are one value all the same.
            left, right = (found[1][0], found[-1][1]) if found[1:] else (found[0][1], found[0][1])
            if name != "field" or fields:
                fields.append(Field(name, cell_text(row[left:right]), begin + left, begin + right, begin))
        begin = end
    return Head("table", tuple(fields), begin)


def _labelled(text: str, start: int, pattern: re.Pattern[str], form: Form) -> Head:
    fields: list[Field] = []
    at, gap = start, False
    for begin, end in _lines(text, start):
        line = text[begin:end].rstrip("\r\n")
        if not line.strip():
            gap = True
            continue
        found = pattern.match(line)
        name = _plain_name(found[1]) if found else ""
        if not found or name in _LABELS or not _may_be_field(name, form, gap=gap, first=not fields):
            break
        value = found[2] or ""
        left = begin + (found.start(2) if found[2] is not None else len(line))
        kept = value.rstrip()
        fields.append(Field(name, kept, left, left + len(kept), begin))
        at, gap = end, False
    return Head(form, tuple(fields), at)


def _may_be_field(name: str, form: Form, *, gap: bool, first: bool) -> bool:
    """After a blank line, only what a card always has is a field; before one, a bold label of any name is."""
    if name in KNOWN or name in _FOREIGN:
        return first or not gap or name != "context"
    return form == "bold" and not gap and not first


def _plain_name(name: str) -> str:
    return " ".join(name.strip("*_` :").casefold().split())


def _lines(text: str, start: int) -> Iterator[tuple[int, int]]:
    while start < len(text):
        end = _line_end(text, start)
        yield start, end
        start = end


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end + 1
