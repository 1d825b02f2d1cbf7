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
# Told, and no reason to refuse anything: people write by hand.
MILD = frozenset({UNKNOWN_AUTHOR, UNPROVEN_DECISION})
_SHOWN = 80


def verify_journal(
    log: Worklog, written_by: Mapping[str, Record], missing: Iterable[Record], *, maintainer: str = MAINTAINER
) -> list[Finding]:
    """`missing` are the records whose text is not in the document or its archive any more."""
    lines = Lines(log.data)
    entries = {entry.entry_id: entry for entry in log.entries}
    found = [_gone(record, entries, lines) for record in missing]
    unknown = []
    for name, entry in entries.items():
        record = written_by.get(name)
        if record is None:
            unknown.append(entry)
        else:
            found += _declared(entry, record, lines, maintainer)
    found += _unknown(unknown, lines, maintainer)
    return sorted(found, key=lambda finding: finding.line)


def is_as_written(entry: Entry, record: Record) -> bool:
    """Of what was changed since, nobody is the author."""
    return normal(entry.text.encode()) == normal(record.text.encode())


def _gone(record: Record, entries: Mapping[str, Entry], lines: Lines) -> Finding:
    subject = record.subject.split(" ")[0]
    name = entry_id_of(subject)
    entry = entries.get(name)
    title = shortened(record.text.strip().partition("\n")[0].lstrip("# "), _SHOWN)
    if entry is not None and not is_as_written(entry, record):
        said = f'The entry "{title}" was changed since {record.author} recorded it.'
        return Finding(
            kind=EDITED, subject=name, line=lines.number(entry.start), sentence=said, owner=record.author
        )
    said = f'"{title}", which {record.author} recorded at {time_text(record.at)}, is not in the work log any more.'
    return Finding(kind=LOST, subject=name, sentence=said, owner=record.author)


def _declared(entry: Entry, record: Record, lines: Lines, maintainer: str) -> Iterator[Finding]:
    actor, line = entry.actor, lines.number(entry.start)
    title = shortened(entry.title or entry.heading, _SHOWN)
    if actor and record.role == "agent" and not is_of(actor, record.author):
        said = f'The entry "{title}" says that it is of {actor}; {record.author} wrote it.'
        yield Finding(kind=IMPERSONATED, subject=entry.entry_id, line=line, sentence=said, owner=actor)
    if record.role != "maintainer" and decides_for_maintainer(entry, maintainer):
        said = f'The entry "{title}" says that the maintainer decided; {record.author} wrote it.'
        yield Finding(kind=FALSE_DECISION, subject=entry.entry_id, line=line, sentence=said, owner=actor)


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
