"""A work log against the record of who wrote what: what went or changed since, and names that are not true."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...protocol.foreign_text import shortened, time_text
from ..finding import Finding
from ..journal import Record
from ..lost_text import normal
from ..roster import MAINTAINER, fold
from .entry import Entry
from .event import entry_id_of
from .log import Lines, Worklog
from .verify import EDITED, IMPERSONATED, decides_for_maintainer
from .verify_head import FALSE_DECISION, is_of

LOST = "lost"
UNKNOWN_AUTHOR = "author unknown"
UNPROVEN_DECISION = "maintainer decision unproven"
NO_RECORD = "no record"
# Told, and no reason to refuse anything: people write by hand.
MILD = frozenset({UNKNOWN_AUTHOR, UNPROVEN_DECISION, NO_RECORD})
_SHOWN = 80


def verify_journal(
    log: Worklog, written_by: Mapping[str, Record], missing: Iterable[Record], *, maintainer: str = MAINTAINER
) -> list[Finding]:
    """`missing` are the records whose text is not in the document or its archive any more."""
    lines = Lines(log.data)
    if log.entries and not written_by:
        return [_no_record(len(log.entries)), *map(_lost, missing)]
    recorded = {_normal(record): record for record in written_by.values()}
    there: dict[bytes, int] = {}
    changed: dict[str, tuple[Entry, Record]] = {}
    unknown: list[Entry] = []
    found: list[Finding] = []
    for entry in log.entries:
        text = normal(entry.text.encode())
        there.setdefault(text, lines.number(entry.start))
        record = recorded.get(text) or written_by.get(entry.entry_id)
        if record is None:
            unknown.append(entry)
        elif (text + b"\n").startswith(_normal(record) + b"\n"):  # perhaps with more text at its end
            found += _declared(entry, record, lines, maintainer)
        else:
            changed[entry.entry_id] = entry, record
    found += [_changed(entry, record, lines, there.get(_normal(record), 0)) for entry, record in changed.values()]
    found += [_lost(record) for record in missing if _name(record) not in changed]
    found += _unknown(unknown, lines, maintainer)
    return sorted(found, key=lambda finding: finding.line)


def is_as_written(entry: Entry, record: Record) -> bool:
    """Of what was changed since, nobody is the author."""
    return normal(entry.text.encode()) == normal(record.text.encode())


def _normal(record: Record) -> bytes:
    return normal(record.text.encode())


def _name(record: Record) -> str:
    return entry_id_of(record.subject.split(" ")[0])


def _title(record: Record) -> str:
    return shortened(record.text.strip().partition("\n")[0].lstrip("# "), _SHOWN)


def _no_record(entries: int) -> Finding:
    many = "its one entry" if entries == 1 else f"its {entries:,} entries"
    said = f"Nothing is on record of {many} here, as in a fresh clone: who wrote what is only what they say."
    return Finding(kind=NO_RECORD, sentence=f"{said} `sortie worklog verify --git` looks at every commit.")


def _changed(entry: Entry, record: Record, lines: Lines, also_at: int) -> Finding:
    """`also_at` is the line where the entry stands as it was recorded."""
    said = f'The entry "{_title(record)}" was changed since {record.author} recorded it'
    said += f"; as it was recorded stands at line {also_at}." if also_at else "."
    line = lines.number(entry.start)
    return Finding(kind=EDITED, subject=entry.entry_id, line=line, sentence=said, owner=record.author)


def _lost(record: Record) -> Finding:
    said = f'"{_title(record)}", which {record.author} recorded at {time_text(record.at)}, is not in the work log'
    return Finding(kind=LOST, subject=_name(record), sentence=f"{said} any more.", owner=record.author)


def _declared(entry: Entry, record: Record, lines: Lines, maintainer: str) -> Iterator[Finding]:
    actor, line = entry.actor, lines.number(entry.start)
    title = shortened(entry.title or entry.heading, _SHOWN)
    if record.role != "maintainer" and decides_for_maintainer(entry, maintainer):
        said = f'The entry "{title}" says that the maintainer decided; {record.author} wrote it.'
        yield Finding(kind=FALSE_DECISION, subject=entry.entry_id, line=line, sentence=said, owner=actor)
    elif actor and record.role == "agent" and not is_of(actor, record.author):
        said = f'The entry "{title}" says that it is of {actor}; {record.author} wrote it.'
        yield Finding(kind=IMPERSONATED, subject=entry.entry_id, line=line, sentence=said, owner=actor)


def _unknown(entries: Iterable[Entry], lines: Lines, maintainer: str) -> Iterator[Finding]:
    unknown = list(entries)
    if not unknown:
        return
    many = "One entry was" if len(unknown) == 1 else f"{len(unknown):,} entries were"
    said = f"{many} not written with `sortie worklog`, nor in a turn: who wrote them is only what they say."
    yield Finding(kind=UNKNOWN_AUTHOR, line=lines.number(unknown[0].start), sentence=said)
    for entry in unknown:
        if decides_for_maintainer(entry, maintainer):
            title = shortened(entry.title or entry.heading, _SHOWN)
            yield Finding(
                kind=UNPROVEN_DECISION,
                subject=entry.entry_id,
                line=lines.number(entry.start),
                sentence=f'The entry "{title}" says that the maintainer decided, and nobody recorded that with '
                "`sortie worklog decide`.",
                owner=entry.actor or fold(maintainer),
            )
