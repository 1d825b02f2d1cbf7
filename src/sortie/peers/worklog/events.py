"""The events of a work log: those of its entries, and those rows of its index that no entry tells of.

An event has the id of its entry, which never changes; an entry that tells two things numbers them behind a point.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .entry import Entry, actor_of, timestamp_of
from .event import Event
from .fields import Fields, items, read_fields
from .head import IndexRow
from .heading import names_in, timestamp_in
from .log import Worklog
from .recognise import says_what_it_is, told_in

MOST_LINKS = 100

_REFERENCE = re.compile(
    r"\b(?:MSG-(?:[A-Za-z]{1,40}-)?[0-9]{8}-[0-9]{3,6}|(?:PROP|DEC|PRD|SIG|ADR)-[0-9]{1,8}|w[ld]-[0-9a-f]{16}(?:\.[0-9])?)\b"
)


def events_of(log: Worklog, session_id: str = "") -> list[Event]:
    """In the order of the file. A row of the index that names the entry of its decision tells nothing new."""
    seen: set[str] = set()
    decided: set[str] = set()
    events: list[Event] = []
    for entry in log.entries:
        told = events_in(entry, session_id, seen)
        decided |= decided_by(entry, told)
        events += told
    return [*row_events(log.index, decided, session_id), *events]


def some_events(
    log: Worklog, entries: Sequence[Entry], rows: Sequence[IndexRow], session_id: str = ""
) -> list[Event]:
    """Of these entries and rows of a log; the others are looked at only where these do not tell everything."""
    alone = told_alone(entries, rows, session_id)
    if alone is not None:
        return alone
    wanted = {entry.entry_id for entry in entries} | {row.row_id for row in rows}
    return [event for event in events_of(log, session_id) if event.entry_id in wanted]


def told_alone(entries: Iterable[Entry], rows: Sequence[IndexRow], session_id: str = "") -> list[Event] | None:
    """None where what these tell depends on others: on earlier proposals, or on entries that rows name."""
    events: list[Event] = []
    decided: set[str] = set()
    for entry in entries:
        told = events_in(entry, session_id, set())
        if not says_what_it_is(entry.title) and any(one.event_type == "proposal.created" for one in told):
            return None
        decided |= decided_by(entry, told)
        events += told
    return None if row_events(rows, decided, session_id) else events


def events_in(entry: Entry, session_id: str, seen: set[str]) -> list[Event]:
    """`seen` has the folded ids of earlier proposals, and learns that of this one."""
    said, body = entry.said, entry.body
    fields = read_fields(body)
    told = list(told_in(entry, said, body, fields, seen))
    entry_id = entry.entry_id
    actor = actor_of(said, fields)
    timestamp = timestamp_of(said, fields, body, entry.session)
    links = _links(said.title, body, fields)
    return [
        Event(
            event_id=entry_id if len(told) == 1 else f"{entry_id}.{number}",
            event_type=event_type,
            session_id=session_id or entry.session.label,
            actor=actor,
            timestamp=timestamp,
            subject=subject,
            payload=payload,
            links=links,
        )
        for number, (event_type, subject, payload) in enumerate(told, 1)
    ]


def row_events(rows: Iterable[IndexRow], decided: set[str], session_id: str) -> list[Event]:
    return [
        Event(
            event_id=row.row_id,
            event_type="decision.recorded",
            session_id=session_id,
            actor=next(iter(names_in(row.owner)), row.owner),
            timestamp=timestamp_in(row.timestamp),
            subject=row.decision,
            payload={
                "decision": row.decision,
                "owner": row.owner,
                "timestamp": row.timestamp,
                "section": row.section,
            },
            links=tuple(dict.fromkeys(_REFERENCE.findall(row.section))),
        )
        for row in rows
        if not section_names(row.section) & decided
    ]


def section_names(*texts: str) -> set[str]:
    """By what a row of the index can name an entry."""
    return {" ".join(text.split()).casefold() for text in texts} - {""}


def decided_by(entry: Entry, told: Iterable[Event]) -> set[str]:
    """By what a row of the index can name the decision that this entry tells, if it tells one."""
    subjects = [event.subject for event in told if event.event_type == "decision.recorded"]
    return section_names(entry.heading, entry.title, *subjects) if subjects else set()


def _links(title: str, body: str, fields: Fields) -> tuple[str, ...]:
    found = [*_REFERENCE.findall(title), *_REFERENCE.findall(body), *items(fields.get("changed_files", ""))]
    return tuple(dict.fromkeys(found))[:MOST_LINKS]
