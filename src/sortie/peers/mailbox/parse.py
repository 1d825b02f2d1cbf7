"""Reads MAILBOX.md: its sections, its cards and their messages, each with its bytes. Fails on no bytes.

What is not understood is a remark with its line. Whatever stands between sections and cards belongs to the people
who wrote it; nobody writes it anew.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from msgspec import Struct

from ..worklog.log import Lines
from .hidden import Hidden, hidden_in
from .message import Message
from .read_card import Reading, read_card

SectionName = Literal["quick", "snapshot", "queue", "active", "closed"]
TITLES: dict[SectionName, str] = {
    "quick": "Quick Reply",
    "snapshot": "Inbox Snapshot",
    "queue": "Open Queue (Newest First)",
    "active": "Active Messages (Newest First)",
    "closed": "Closed Summary (Newest First)",
}
_BEGINNINGS: dict[bytes, SectionName] = {
    b"quick reply": "quick",
    b"inbox s": "snapshot",
    b"open queue": "queue",
    b"active messages": "active",
    b"closed summary": "closed",
}

_MARK = b"##"
_CARD = b"### MSG-"
_SECTION = b"## "
_NUMBER = re.compile(rb"(?:\d{1,3}[.)]? )?")
# The head of a card without a heading: plain fields right below a rule.
_RULE = re.compile(
    rb"-{3,}[ \t]*\r?\n(?:[ \t]*\r?\n)?(?=((?:(?:Message ID|To|From|Date|Type|Priority|Related|Context|Status"
    rb"|Subject|Response needed by):[^\n]*\n?)+))"
)
_OLD_FIELDS = (b"\nTo:", b"\nFrom:", b"\nSubject:", b"\nStatus:")


class Card(Struct, frozen=True, gc=False):
    start: int
    end: int
    reading: Reading
    message: Message


class Section(Struct, frozen=True):
    """From its heading to the next section; `inside` is where its heading line ends."""

    name: SectionName
    start: int
    inside: int
    end: int


class Remark(Struct, frozen=True, kw_only=True):
    line: int
    sentence: str


class Part(Struct, frozen=True):
    """A range of bytes; all of them together are the file."""

    kind: Literal["text", "section", "card"]
    start: int
    end: int


class Mailbox:
    """One version of the file. `cards` are in the order of the file, `newest_first` by their dates and numbers."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.eol = b"\r\n" if b"\r\n" in data[: data.find(b"\n") + 1] else b"\n"
        marks = _at_line_starts(data, _MARK)
        headings = [at for at in marks if data.startswith(_CARD, at)]
        if old := list(_old_cards(data)):
            headings = sorted([*headings, *old])
        sections = [(at, name) for at in marks if (name := _section_name(data, at))]
        self.hidden: Hidden = hidden_in(data, sorted([*headings, *(at for at, _ in sections)]))
        if self.hidden.ranges:
            headings = [at for at in headings if not self.hidden.covers(at)]
            sections = [(at, name) for at, name in sections if not self.hidden.covers(at)]
        self.cards = _cards(data, headings, [at for at, _ in sections])
        bounds = [*(at for at, _ in sections), len(data)]
        self.sections = tuple(
            Section(name, at, _line_end(data, at), bounds[number + 1]) for number, (at, name) in enumerate(sections)
        )

    @cached_property
    def newest_first(self) -> tuple[Card, ...]:
        orders = [card.reading.order for card in self.cards]
        if orders == sorted(orders, reverse=True):
            return self.cards
        return tuple(sorted(self.cards, key=lambda card: card.reading.order, reverse=True))

    @property
    def messages(self) -> list[Message]:
        """The newest first."""
        return [card.message for card in self.newest_first]

    def section(self, name: SectionName) -> Section | None:
        return next((section for section in self.sections if section.name == name), None)

    def find(self, message_id: str) -> list[Card]:
        """All cards of this ID; more than one is a mistake of whoever wrote the second."""
        wanted = message_id.casefold()
        return [card for card in self.cards if card.message.id.casefold() == wanted]

    def line_of(self, at: int) -> int:
        return self._lines.number(at)

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.data)

    @property
    def damage(self) -> str:
        """Why nothing may be written to this file, and nothing concluded from it; empty where it is sound."""
        if not self.data.strip():
            return "is empty"
        if b"\0" in self.data:
            return "is no text: it has NUL bytes"
        if not self.cards and not self.sections:
            return "is no mailbox: it has neither a section nor a message that was understood"
        seen: dict[str, Section] = {}
        for section in self.sections:
            if section.name in seen:
                lines = f"lines {self.line_of(seen[section.name].start)} and {self.line_of(section.start)}"
                return f"has the section `## {TITLES[section.name]}` twice, in {lines}"
            seen[section.name] = section
        return ""

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(_parts(self))

    @property
    def remarks(self) -> list[Remark]:
        return sorted(_remarks(self), key=lambda remark: remark.line)


def parse(data: bytes) -> Mailbox:
    return Mailbox(data)


def _at_line_starts(data: bytes, token: bytes) -> list[int]:
    first = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    found = [match.start() + 1 for match in re.finditer(b"\n" + token, data)]
    return [first, *found] if data.startswith(token, first) else found


def _old_cards(data: bytes) -> Iterator[int]:
    """Cards without a heading begin with the rule above their first field."""
    for at in _at_line_starts(data, b"---"):
        found = _RULE.match(data, at)
        if found and (b"\nMessage ID:" in (head := b"\n" + found[1]) or all(key in head for key in _OLD_FIELDS)):
            yield at


def _section_name(data: bytes, at: int) -> SectionName | None:
    if not data.startswith(_SECTION, at):
        return None
    title = data[at + len(_SECTION) : at + 60].lstrip().lower()
    title = title[_NUMBER.match(title).end() :]  # type: ignore[union-attr]
    return next((name for beginning, name in _BEGINNINGS.items() if title.startswith(beginning)), None)


def _cards(data: bytes, starts: list[int], sections: list[int]) -> tuple[Card, ...]:
    """Each reaches to the next, or to a section."""
    ends = [*starts[1:], len(data)] if starts else []
    for section in sections:
        before = bisect_right(starts, section) - 1
        if before >= 0:
            ends[before] = min(ends[before], section)
    readings = [read_card(data[start:end]) for start, end in zip(starts, ends, strict=True)]
    return tuple(map(Card, starts, ends, readings, [reading.message for reading in readings]))


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end + 1


def _parts(mailbox: Mailbox) -> Iterator[Part]:
    known = [Part("card", card.start, card.end) for card in mailbox.cards]
    known += [Part("section", section.start, section.inside) for section in mailbox.sections]
    at = 0
    for part in sorted(known, key=lambda part: part.start):
        if at < part.start:
            yield Part("text", at, part.start)
        yield part
        at = part.end
    if at < len(mailbox.data):
        yield Part("text", at, len(mailbox.data))


def _remarks(mailbox: Mailbox) -> Iterator[Remark]:
    if mailbox.hidden.doubtful is not None:
        line = mailbox.line_of(mailbox.hidden.doubtful)
        yield Remark(line=line, sentence="What begins here, a fence or a comment, is never closed.")
    seen: dict[str, int] = {}
    for card in mailbox.cards:
        line, name = mailbox.line_of(card.start), card.message.id
        for offset, sentence in card.reading.remarks:
            yield Remark(line=line + _lines_in(mailbox, card, offset), sentence=f"{name} {sentence}.")
        if name.casefold() in seen:
            yield Remark(line=line, sentence=f"{name} is in line {seen[name.casefold()]} already.")
        seen.setdefault(name.casefold(), line)


def _lines_in(mailbox: Mailbox, card: Card, offset: int) -> int:
    text = mailbox.data[card.start : card.end].decode("utf-8", "replace")
    return text.count("\n", 0, offset)
