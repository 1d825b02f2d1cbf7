"""One entry of a work log: its byte range, its name that never changes, and on demand what it says.

A log has many entries and a reader asks about few of them, so all but the range is worked out when asked for.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from .body import unescaped
from .fields import Fields, read_fields
from .heading import Heading, is_strict, iso, person, read_heading, timestamp_in

Form = Literal["heading", "line"]

_RULE = re.compile(r"(?:-{3,}|\*{3,}|_{3,})[ \t]*")


class Session(Struct, frozen=True, kw_only=True):
    """The section an entry stands in: `## Session 3 — 2026-03-01`."""

    label: str = ""
    date: str = ""


class Source:
    """The bytes of a log and the folded names of those who work on it, shared by all its entries."""

    __slots__ = ("data", "names")

    def __init__(self, data: bytes, names: frozenset[str] = frozenset()) -> None:
        self.data = data
        self.names = names


class Entry(Struct, frozen=True, gc=False, eq=False):
    source: Source
    start: int
    end: int
    named_at: int  # where the line starts that it is named after; behind the opening of a fence that it begins with
    ordinal: int  # among entries with the same first line
    form: Form
    session: Session

    @property
    def entry_id(self) -> str:
        return entry_id(self.first_line, self.ordinal)

    @property
    def first_line(self) -> bytes:
        return first_line(self.source.data, self.named_at, self.end)

    @property
    def is_strict(self) -> bool:
        return is_strict(self.source.data, self.named_at)

    @property
    def stamp(self) -> str:
        """The time in a strict heading: such times are in the order of their texts."""
        return self.source.data[self.named_at + 4 : self.named_at + 24].decode("ascii", "replace")

    @property
    def text(self) -> str:
        """As it stands in the file, without blank lines and rules at its ends; lines end with `\\n`."""
        return trimmed(self.source.data[self.start : self.end].decode("utf-8", "replace"))

    @property
    def digest(self) -> str:
        return digest(self.text)

    @property
    def heading(self) -> str:
        """The first line without the marks of a heading."""
        return self.first_line.decode("utf-8", "replace").lstrip("#").strip()

    @property
    def body(self) -> str:
        """What follows the heading, with our escapes undone; of an entry without one, everything."""
        text = self.text
        if self.form == "heading":
            text = text.partition("\n")[2].lstrip("\n")
        return unescaped(text)

    @property
    def said(self) -> Heading:
        return read_heading(self.first_line.decode("utf-8", "replace"), self.source.names)

    @property
    def title(self) -> str:
        return self.said.title

    @property
    def fields(self) -> Fields:
        return read_fields(self.body)

    @property
    def actor(self) -> str:
        return actor_of(self.said, self.fields)

    @property
    def timestamp(self) -> str:
        return timestamp_of(self.said, self.fields, self.body, self.session)


def actor_of(said: Heading, fields: Fields) -> str:
    return said.actor or person(fields.get("owner") or fields.get("author") or "")


def timestamp_of(said: Heading, fields: Fields, body: str, session: Session) -> str:
    """From the heading, a field, the start of the text or the section, in this order; never invented."""
    if said.date and (said.clock or not body):
        return iso(said.date, said.clock, said.zone)
    start = body[:100]
    date = said.date or timestamp_in(start)[:10] or session.date
    if said.clock:
        return iso(date, said.clock, said.zone)
    stated = fields.get("timestamp") or fields.get("date") or ""
    return timestamp_in(stated, date) or timestamp_in(start, date) or iso(date, "")


def entry_id(line: bytes, ordinal: int) -> str:
    return "wl-" + blake2b(b"%d\n%b" % (ordinal, line), digest_size=8).hexdigest()


def first_line(data: bytes, start: int, most: int) -> bytes:
    stop = data.find(b"\n", start, most)
    return data[start : most if stop < 0 else stop].rstrip()


def trimmed(text: str) -> str:
    """Without byte order mark, carriage returns at line ends, and blank lines and rules at both ends."""
    lines = text.removeprefix("\ufeff").split("\n")
    if "\r" in text:
        lines = [line.rstrip("\r") for line in lines]
    first, last = 0, len(lines)
    while first < last and not lines[first].strip():
        first += 1
    while last > first and (not lines[last - 1].strip() or _RULE.fullmatch(lines[last - 1])):
        last -= 1
    return "\n".join(lines[first:last])


def digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
