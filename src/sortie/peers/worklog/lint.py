"""What is wrong with a work log by the rules of the document: its head, its order, its entries. One sentence each.

Nothing here compares with earlier versions; `verify` does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from ...protocol.foreign_text import shortened
from ..finding import Finding
from ..journal import Record
from ..roster import Roster, fold
from .events import decided_by, events_in, section_names
from .lint_entry import Read, check_entry, conversations
from .log import Lines, Worklog
from .parse import parse

NO_STATUS_BLOCK = "no-status-block"
NO_STATUS_LINE = "no-status-line"
UNKNOWN_STATUS = "unknown-status-line"
LONG_STATUS = "long-status-line"
NO_INDEX = "no-decision-index"
ROW_WITHOUT_ENTRY = "row-without-entry"
DECISION_WITHOUT_ROW = "decision-without-row"
TIME_BACKWARDS = "time-backwards"
TIME_IN_FUTURE = "time-in-future"
NO_TIME = "no-time"
DUPLICATE = "duplicate-entry"
DUPLICATE_PROPOSAL = "duplicate-proposal"
FOREIGN_AMENDMENT = "amended-by-another"
OPEN_FENCE = "unclosed"
NOT_UNDERSTOOD = "not-understood"
COMPACTION = "compaction"
# Advice, and no reason to refuse anything.
MILD = frozenset({COMPACTION})

LONGEST_STATUS = 120
MOST_BODY_LINES = 500
_BODY: Iterable[str] = ("session", "section", "entry", "comment")
# Clocks of machines differ.
_SLACK = 300.0
_REFERENCE = re.compile(r"[A-Z]{2,8}-[A-Za-z0-9-]{1,60}")


def lint(
    log: Worklog,
    *,
    roster: Roster,
    now: float,
    archive: bytes = b"",
    written_by: Mapping[str, Record] | None = None,
) -> list[Finding]:
    """In the order of the lines. `written_by` says of which entries it is on record who wrote them."""
    lines = Lines(log.data)
    reads = list(_read(log, lines))
    known = {name for name, record in (written_by or {}).items() if record.role != "agent"}
    found = [
        *_status_block(log, lines, roster),
        *_index(log, lines, reads, archive),
        *_times(reads, now),
        *_twice(reads),
        *_remarks(log),
        *(one for read in reads for one in check_entry(read, roster, is_known=read.entry.entry_id in known)),
        *conversations(reads, roster),
        *_size(log),
    ]
    return sorted(found, key=lambda finding: finding.line)


def _read(log: Worklog, lines: Lines) -> Iterator[Read]:
    seen: set[str] = set()
    for entry in log.entries:
        events = tuple(events_in(entry, "", seen))
        yield Read(
            entry=entry,
            line=lines.number(entry.start),
            title=entry.title,
            actor=events[0].actor,
            body=entry.body,
            fields=entry.fields,
            events=events,
        )


def _status_block(log: Worklog, lines: Lines, roster: Roster) -> Iterator[Finding]:
    pinned = [line for line in log.status if line.pinned and line.agent]
    if not pinned:
        yield Finding(
            kind=NO_STATUS_BLOCK,
            line=1,
            sentence="There is no status block: put one line `Now Working (NAME): idle` for each agent on top, "
            "or let `sortie worklog claim` do it.",
        )
    have = {fold(line.agent) for line in pinned}
    for agent in roster.agents if pinned else ():
        if fold(agent) not in have:
            yield Finding(
                kind=NO_STATUS_LINE,
                line=lines.number(pinned[0].start),
                sentence=f"The status block has no line for {agent}: `sortie worklog status --set idle` adds it.",
                owner=agent,
            )
    for line in log.status:
        number = lines.number(line.start)
        if line.pinned and line.agent and roster.agents and roster.find(line.agent) is None:
            yield Finding(
                kind=UNKNOWN_STATUS,
                line=number,
                sentence=f"The status line of {line.agent} is of nobody who takes part: {', '.join(roster.names)}.",
                owner=line.agent,
            )
        if line.pinned and len(line.text) > LONGEST_STATUS:
            yield Finding(
                kind=LONG_STATUS,
                line=number,
                sentence=f"This status line has {len(line.text):,} characters; keep it to {LONGEST_STATUS}, and "
                "put the rest into an entry.",
                owner=line.agent,
            )


def _index(log: Worklog, lines: Lines, reads: Sequence[Read], archive: bytes) -> Iterator[Finding]:
    decisions = [(read, decided_by(read.entry, read.events)) for read in reads]
    decisions = [(read, names) for read, names in decisions if names]
    if not any(part.kind == "index" for part in log.parts):
        yield Finding(
            kind=NO_INDEX,
            line=1,
            sentence="There is no decision index: put `## Decision Index` with a table of Decision, Owner, "
            "Timestamp and Section below the status block; `sortie worklog decide` does it.",
        )
    named = set[str]().union(*(section_names(row.section, row.decision) for row in log.index))
    for read, names in decisions:
        if not names & named:
            yield read.finding(
                DECISION_WITHOUT_ROW,
                f"The decision {read.called} has no row in the decision index; add one that names it in Section.",
            )
    headings = set[str]().union(*(section_names(read.title, read.entry.heading) for read in reads))
    headings |= set[str]().union(*(names for _, names in decisions))
    headings |= set[str]().union(*(section_names(entry.title, entry.heading) for entry in parse(archive).entries))
    references = Counter(_REFERENCE.findall(log.data.decode("utf-8", "replace"))) if log.index else Counter()
    for row in log.index:
        if not section_names(row.section, row.decision) & headings and not _refers(row.section, references):
            yield Finding(
                kind=ROW_WITHOUT_ENTRY,
                subject=row.row_id,
                line=lines.number(row.start),
                sentence=f'The row "{shortened(row.decision, 60)}" names no entry of this log in Section; record '
                "the decision with `sortie worklog decide`, which also writes its row.",
                owner=row.owner,
            )


def _refers(section: str, references: Counter[str]) -> bool:
    """To something with a name of its own: a message, or what the log names elsewhere too."""
    found = Counter(_REFERENCE.findall(section))
    return any(one.startswith("MSG-") or references[one] > found[one] for one in found)


def _times(reads: Sequence[Read], now: float) -> Iterator[Finding]:
    latest, text = float("-inf"), ""
    for read in reads:
        stamp = read.events[0].timestamp
        at = _moment(stamp)
        if at is None:
            yield read.finding(
                NO_TIME, f"The entry {read.called} does not say when it was written; begin it with a time in UTC."
            )
            continue
        if at > now + _SLACK:
            yield read.finding(
                TIME_IN_FUTURE, f"The entry {read.called} is of {stamp}, which is yet to come; correct the clock."
            )
        elif at < latest and not text.startswith(stamp):
            yield read.finding(
                TIME_BACKWARDS,
                f"The entry {read.called} is of {stamp} and stands below one of {text}; new entries go to the end.",
            )
        if latest < at <= now + _SLACK:
            latest, text = at, stamp


def _moment(stamp: str) -> float | None:
    """A time without its zone is taken for UTC, and a day for its end: only what is surely wrong is told."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    if len(stamp) <= len("2026-11-18"):
        moment = moment.replace(hour=23, minute=59, second=59)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def _twice(reads: Sequence[Read]) -> Iterator[Finding]:
    texts: dict[str, int] = {}
    proposals: dict[str, Read] = {}
    for read in reads:
        digest = read.entry.digest
        if digest in texts:
            yield read.finding(
                DUPLICATE, f"The entry {read.called} stands at line {texts[digest]} already, word for word."
            )
        texts.setdefault(digest, read.line)
        for event in read.events:
            name = str(event.payload.get("id", ""))
            if not event.event_type.startswith("proposal.") or not name:
                continue
            first = proposals.setdefault(fold(name), read)
            if first is read:
                continue
            if event.event_type == "proposal.created":
                yield read.finding(
                    DUPLICATE_PROPOSAL,
                    f"{name} is the id of another proposal, at line {first.line}; `sortie worklog propose` gives a "
                    "free one.",
                )
            elif read.actor and first.actor and fold(read.actor) != fold(first.actor):
                yield read.finding(
                    FOREIGN_AMENDMENT,
                    f"{name} is a proposal of {first.actor}, who alone amends it; {read.actor} raises an objection "
                    "instead: `sortie worklog object`.",
                )


def _remarks(log: Worklog) -> Iterator[Finding]:
    for remark in log.remarks:
        is_open = "not closed" in remark.sentence
        fix = " Close it on a line of its own." if is_open else ""
        yield Finding(
            kind=OPEN_FENCE if is_open else NOT_UNDERSTOOD, line=remark.line, sentence=remark.sentence + fix
        )


def _size(log: Worklog) -> Iterator[Finding]:
    body = sum(log.data.count(b"\n", part.start, part.end) for part in log.parts if part.kind in _BODY)
    if body > MOST_BODY_LINES:
        first = next(part.start for part in log.parts if part.kind in _BODY)
        yield Finding(
            kind=COMPACTION,
            line=log.line_of(first),
            sentence=f"The entries have {body:,} lines, more than {MOST_BODY_LINES}: when the maintainer agrees, "
            "move completed ones to WORKLOG_ARCHIVE.md, word for word.",
        )
