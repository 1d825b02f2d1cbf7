"""The parts of a mailbox that follow from its messages: snapshot, queue, closed summary, and the places for cards.

They are made anew at every write, in the columns that the file has. Rows and columns that people added stay.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...protocol.foreign_text import shortened
from .deadlines import most_pressing
from .message import NONE, Message, folded, from_to, is_open, order, unread_by
from .parse import TITLES, Mailbox, Section, SectionName
from .quoting import cell, cell_text, cells, is_rule_row
from .read_card import Reading

COLUMNS: dict[SectionName, tuple[str, ...]] = {
    "snapshot": ("Agent", "Unread", "Oldest unread", "Needs response by"),
    "queue": ("ID", "From -> To", "Priority", "Subject"),
    "closed": ("ID", "Date", "From -> To", "Final status", "Outcome"),
}
_ROWS = re.compile(rb"(?:[ ]{0,3}\|[^\n]*(?:\n|\Z))+")
_LONGEST_OUTCOME = 160
_ORDER: tuple[SectionName, ...] = ("snapshot", "queue", "active", "closed")


class Edit(Struct, frozen=True, gc=False):
    """Bytes to put in the place of a range, which is empty where something is added."""

    start: int
    end: int
    text: bytes


class Table(Struct, frozen=True):
    """A table of the file: its columns, and the range and the lines of its rows."""

    columns: tuple[str, ...]
    start: int
    end: int
    rows: tuple[bytes, ...]


def applied(data: bytes, edits: Iterable[Edit]) -> bytes:
    """The content with all edits made; those at one place in the order in which they are given."""
    pieces, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [data[at : edit.start], edit.text]
        at = edit.end
    return b"".join([*pieces, data[at:]])


def rederived(mailbox: Mailbox, agents: Sequence[str]) -> bytes:
    """The same messages with right tables."""
    readings = [card.reading for card in mailbox.newest_first]
    return applied(mailbox.data, derived_edits(mailbox, readings, agents))


def derived_edits(
    mailbox: Mailbox, readings: Sequence[Reading], agents: Sequence[str], new_card: bytes = b""
) -> list[Edit]:
    """What has to change in the file, where `readings` are all messages that it is to have, the newest first."""
    edits: list[Edit] = []
    for name in _ORDER:
        section = mailbox.section(name)
        if name == "active":
            edits += _active_edits(mailbox, section, new_card)
            continue
        table = table_of(mailbox, name)
        columns = table.columns if table else COLUMNS[name]
        there = table.rows if table else ()
        rows = _derived(name, columns, there, readings, agents)
        edits += _table_edits(mailbox, name, section, table, rows)
    return edits


def table_of(mailbox: Mailbox, name: SectionName) -> Table | None:
    """The first table of the section whose first column is ours."""
    section = mailbox.section(name)
    if section is None:
        return None
    data, at = mailbox.data, section.inside
    below = bisect_right(mailbox.cards, section.start, key=lambda card: card.start)
    end = min([section.end, *(card.start for card in mailbox.cards[below : below + 1])])
    while at < end:
        if mailbox.hidden.covers(at) or not (found := _ROWS.match(data, at, end)):
            following = data.find(b"\n", at, end)
            at = end if following < 0 else following + 1
            continue
        header, _, rest = found[0].partition(b"\n")
        rule, _, _ = rest.partition(b"\n")
        columns = tuple(row_cells(header))
        is_ours = columns[:1] and columns[0].casefold() == COLUMNS[name][0].casefold()
        if is_ours and is_rule_row(rule.decode("latin-1")):
            start = min(at + len(header) + len(rule) + 2, found.end())
            rows = data[start : found.end()].replace(b"\r\n", b"\n").removesuffix(b"\n")
            return Table(columns, start, found.end(), tuple(rows.split(b"\n")) if rows else ())
        at = found.end()
    return None


def row_cells(row: bytes) -> list[str]:
    text = row.decode("utf-8", "surrogateescape").rstrip("\r\n")
    return [cell_text(text[slice(*found)]) for found in cells(text)] or [""]


def row_key(row: bytes) -> str:
    """Whose row it is, for comparing."""
    return row_cells(row)[0].strip("`* ").casefold()


def closed_ids(mailbox: Mailbox) -> list[str]:
    """Of the rows of the closed summary, the newest first, for comparing."""
    table = table_of(mailbox, "closed")
    return [row_key(row) for row in table.rows] if table else []


def without_closed_rows(mailbox: Mailbox, dropped: set[str]) -> Edit | None:
    """Take these rows out of the closed summary."""
    table = table_of(mailbox, "closed")
    if table is None or not dropped:
        return None
    kept = [row for row in table.rows if row_key(row) not in dropped]
    return Edit(table.start, table.end, _lines(kept, mailbox.eol))


def _table_edits(
    mailbox: Mailbox, name: SectionName, section: Section | None, table: Table | None, rows: list[bytes]
) -> list[Edit]:
    eol = mailbox.eol
    if table is not None:
        text = _lines(rows, eol)
        if mailbox.data[table.start - 1 : table.start] != b"\n":
            text = eol + text  # the file ends with the header
        return [] if mailbox.data[table.start : table.end] == text else [Edit(table.start, table.end, text)]
    header = [f"| {' | '.join(COLUMNS[name])} |".encode(), b"|" + b"---|" * len(COLUMNS[name])]
    text = _lines([*header, *rows], eol)
    if section is not None:
        lead = eol if mailbox.data[section.inside - 1 : section.inside] == b"\n" else eol + eol
        # A line of another table right below would become a row of this one.
        tail = b"" if mailbox.data[section.inside : section.inside + 1] in (b"", b"\r", b"\n") else eol
        return [Edit(section.inside, section.inside, lead + text + tail)]
    return [_new_section(mailbox, name, text)]


def _active_edits(mailbox: Mailbox, section: Section | None, new_card: bytes) -> list[Edit]:
    card = new_card.replace(b"\n", mailbox.eol)
    if section is None:
        return [_new_section(mailbox, "active", card)]
    if not card:
        return []
    # Below what people wrote on top of the section: text below a card would be taken for a part of it.
    at = next((one.start for one in mailbox.cards if section.inside <= one.start < section.end), section.end)
    before = mailbox.data[section.start : at]
    lead = b"" if before.endswith(mailbox.eol * 2) else mailbox.eol if before.endswith(b"\n") else mailbox.eol * 2
    return [Edit(at, at, lead + card)]


def _new_section(mailbox: Mailbox, name: SectionName, text: bytes) -> Edit:
    """A section that is missing, before those that come after it, and never below a card that belongs into it."""
    later = [section.start for section in mailbox.sections if section.name in _ORDER[_ORDER.index(name) + 1 :]]
    if name != "closed":
        later += [card.start for card in mailbox.cards[:1]]
    at = min(later, default=len(mailbox.data))
    eol = mailbox.eol
    lead = b"" if not at or mailbox.data.endswith(b"\n", 0, at) else eol
    if at == len(mailbox.data) and at and not mailbox.data.endswith(eol + eol):
        lead += eol
    tail = text + eol if text and at < len(mailbox.data) and name != "active" else text
    return Edit(at, at, lead + f"## {TITLES[name]}".encode() + eol * 2 + tail)


def _derived(
    name: SectionName,
    columns: Sequence[str],
    there: Sequence[bytes],
    readings: Sequence[Reading],
    agents: Sequence[str],
) -> list[bytes]:
    if name == "snapshot":
        return _snapshot(columns, there, [reading.message for reading in readings], agents)
    return _queue(columns, there, readings) if name == "queue" else _closed(columns, there, readings)


def _snapshot(
    columns: Sequence[str], there: Sequence[bytes], messages: Sequence[Message], agents: Sequence[str]
) -> list[bytes]:
    old = {folded(found[0]): found for row in there if (found := row_cells(row))[0]}
    names = {folded(name): name for name in (*(found[0] for found in old.values()), *agents)}
    unread = unread_by(messages, names)
    rows = [_row(columns, _inbox(name, unread[key]), old.get(key, [])) for key, name in names.items()]
    return rows + [row for row in there if not row_cells(row)[0]]


def snapshot_row(name: str, messages: Sequence[Message]) -> dict[str, str]:
    """The cells of somebody's row, by column; `messages` are the newest first."""
    return _inbox(name, unread_by(messages, [name])[folded(name)])


def _inbox(name: str, unread: Sequence[Message]) -> dict[str, str]:
    return {
        "agent": name,
        "unread": str(len(unread)),
        "oldest unread": unread[-1].id if unread else NONE,
        "needs response by": most_pressing(unread),
    }


def _queue(columns: Sequence[str], there: Sequence[bytes], readings: Sequence[Reading]) -> list[bytes]:
    """Every message that is open; and rows of people for messages that have no card, which say so much at least."""
    known = {reading.row for reading in readings}
    foreign = [row for row in there if row not in known]
    ids = {reading.message.id.casefold() for reading in readings} if foreign else set()
    kept = [row for row in foreign if row_key(row) not in ids]
    if tuple(columns) == COLUMNS["queue"]:
        return [reading.row for reading in readings if reading.message.status != "closed"] + kept
    old = {row_key(row): row_cells(row) for row in there}
    rows = []
    for message in (reading.message for reading in readings if is_open(reading.message)):
        values = {
            "id": message.id,
            "from -> to": from_to(message),
            "priority": message.priority,
            "pri": message.priority,
            "subject": message.subject,
            "date": message.date[:10],
            "type": message.type,
            "due": message.response_needed_by or NONE,
            "status": message.status,
        }
        rows.append(_row(columns, values, old.get(message.id.casefold(), [])))
    return rows + kept


def _closed(columns: Sequence[str], there: Sequence[bytes], readings: Sequence[Reading]) -> list[bytes]:
    """Every message that is closed; and the rows of those whose cards are in the archive."""
    old = {row_key(row): row for row in there}
    closed = {one.message.id.casefold(): one.message for one in readings if one.message.status == "closed"}
    rows = []
    for key, message in closed.items():
        final = message.disposition or "closed"
        last = message.acks[-1] if message.acks else None
        outcome = last.text.partition(" — ")[2] if last and last.text.startswith("Closed (") else ""
        values = {
            "id": message.id,
            "date": (last.date if last and last.date else message.date)[:10],
            "from -> to": from_to(message),
            "subject": message.subject,
            "final status": final,
            "outcome": shortened(outcome or message.subject, _LONGEST_OUTCOME),
            "closed by": last.actor if last else "",
        }
        was = row_cells(old[key]) if key in old else []
        is_right = was and dict(zip(map(str.casefold, columns), was, strict=False)).get("final status") == final
        rows.append(old[key] if is_right else _row(columns, values, was))
    rows += [row for row in there if row_key(row) not in closed]
    return sorted(rows, key=lambda row: order(Message(id=row_cells(row)[0])), reverse=True)


def _lines(rows: Sequence[bytes], eol: bytes) -> bytes:
    return eol.join(rows) + eol if rows else b""


def _row(columns: Sequence[str], values: dict[str, str], old: Sequence[str]) -> bytes:
    """By the columns of the table; what we know nothing of stays as it was."""
    found = []
    for at, column in enumerate(columns):
        was = old[at] if at < len(old) else ""
        found.append(cell(values.get(" ".join(column.casefold().split()), was)))
    return f"| {' | '.join(found)} |".encode("utf-8", "surrogateescape")
