"""What is wrong with a mailbox by the rules of the document, one sentence each. Earlier versions are no matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...protocol.foreign_text import shortened
from ..finding import Finding
from ..roster import Roster
from .derive import COLUMNS, row_cells, row_key, snapshot_row, table_of
from .message import NONE, TYPES, Message, folded, is_open, receivers, sent_at
from .parse import TITLES, Card, Mailbox, SectionName

DAMAGED = "damaged"
NOT_UNDERSTOOD = "not-understood"
NO_SECTION = "no-section"
ORDER = "not-newest-first"
UNKNOWN_NAME = "unknown-name"
NO_CLOSURE_OWNER = "no-closure-owner"
NO_DEPENDENCY = "blocked-without-dependency"
UNKNOWN_TYPE = "unknown-type"
IN_FUTURE = "date-in-future"
ROW_WITHOUT_CARD = "row-without-card"
NO_ROW = "card-without-row"
SNAPSHOT = "snapshot"
CLOSED_ROW = "closed-row"
ARCHIVE = "archive"
# Advice, and no reason to refuse anything.
MILD = frozenset({ARCHIVE, ORDER, NO_SECTION})

MOST_CLOSED = 50
_SLACK = 300.0
_SHOWN = 60
_ASKING = ("request", "decision-required", "approval-required", "objection")


def lint(mailbox: Mailbox, *, roster: Roster, now: float) -> list[Finding]:
    """In the order of the lines."""
    if mailbox.damage:
        return [Finding(kind=DAMAGED, sentence=f"It {mailbox.damage}.")]
    found = [
        *(Finding(kind=NOT_UNDERSTOOD, line=one.line, sentence=one.sentence) for one in mailbox.remarks),
        *_sections(mailbox),
        *(finding for card in mailbox.cards for finding in _card(mailbox, card, roster, now)),
        *_queue(mailbox),
        *_snapshot(mailbox, roster),
        *_closed(mailbox),
    ]
    return sorted(found, key=lambda finding: finding.line)


def _sections(mailbox: Mailbox) -> Iterator[Finding]:
    for name, title in TITLES.items():
        if name != "quick" and mailbox.section(name) is None:
            yield Finding(kind=NO_SECTION, sentence=f"There is no section `## {title}`; the next write adds it.")
    if mailbox.cards != mailbox.newest_first:
        first = next(a for a, b in zip(mailbox.cards, mailbox.newest_first, strict=True) if a is not b)
        yield _about(mailbox, first, ORDER, "stands before a newer message")
    closed = [card for card in mailbox.cards if not is_open(card.message)]
    if len(closed) > MOST_CLOSED:
        sentence = f"{len(closed)} closed messages make it long: `sortie mailbox archive` puts them away."
        yield Finding(kind=ARCHIVE, line=mailbox.line_of(closed[0].start), sentence=sentence)


def _card(mailbox: Mailbox, card: Card, roster: Roster, now: float) -> Iterator[Finding]:
    message = card.message
    if roster.agents:
        for name in (message.sender, *receivers(message, ())):
            if not roster.find(_bare(name)) and folded(name) not in ("sortie", "orchestrator"):
                shown = shortened(name, _SHOWN) or "nobody"
                yield _about(mailbox, card, UNKNOWN_NAME, f"names {shown}, whom no document knows")
    if not message.recipients:
        yield _about(mailbox, card, UNKNOWN_NAME, "has no receiver")
    if message.type not in TYPES:
        kind = shortened(message.type, _SHOWN)
        yield _about(mailbox, card, UNKNOWN_TYPE, f"is of the type `{kind}`, which nobody knows")
    if is_open(message) and message.type in _ASKING and folded(message.closure_owner) in ("", NONE):
        yield _about(mailbox, card, NO_CLOSURE_OWNER, "does not say who closes it")
    if message.status == "blocked" and not any(folded("blocked") in ack.text.casefold() for ack in message.acks):
        yield _about(mailbox, card, NO_DEPENDENCY, "is blocked, and no answer says by what")
    sent = sent_at(message)
    if sent is not None and sent > now + _SLACK + (86_400 if len(message.date) <= 10 else 0):
        yield _about(mailbox, card, IN_FUTURE, f"is dated {message.date}, which is still to come")


def _queue(mailbox: Mailbox) -> Iterator[Finding]:
    table = table_of(mailbox, "queue")
    rows = Counter(row_key(row) for row in table.rows) if table else Counter()
    cards = {card.message.id.casefold(): card for card in mailbox.cards}
    line = _line_of(mailbox, "queue")
    for key, count in rows.items():
        name = cards[key].message.id if key in cards else shortened(key.upper(), _SHOWN)
        if key not in cards:
            yield Finding(
                kind=ROW_WITHOUT_CARD, subject=name, line=line, sentence=f"The queue has {name}, which has no card."
            )
        elif not is_open(cards[key].message):
            sentence = f"The queue has {name}, which is closed."
            yield Finding(kind=ROW_WITHOUT_CARD, subject=name, line=line, sentence=sentence)
        elif count > 1:
            sentence = f"The queue has {name} {count} times."
            yield Finding(kind=ROW_WITHOUT_CARD, subject=name, line=line, sentence=sentence)
    for key, card in cards.items():
        if is_open(card.message) and key not in rows:
            yield _about(mailbox, card, NO_ROW, "is open and not in the queue")


def _snapshot(mailbox: Mailbox, roster: Roster) -> Iterator[Finding]:
    table = table_of(mailbox, "snapshot")
    if table is None:
        return
    columns = [column.casefold() for column in table.columns]
    there = {folded(found[0]): found for row in table.rows if (found := row_cells(row))}
    messages = mailbox.messages
    for name in {folded(one): one for one in (*(row[0] for row in there.values()), *roster.names)}.values():
        said = dict(zip(columns, there.get(folded(name), []), strict=False))
        wrong = [
            f"{column} {said.get(column) or 'missing'} instead of {right}"
            for column, right in snapshot_row(name, messages).items()
            if column in columns and column != "agent" and said.get(column, "").casefold() != right.casefold()
        ]
        if wrong:
            sentence = f"The snapshot of {shortened(name, _SHOWN)} is wrong: {', '.join(wrong)}."
            yield Finding(kind=SNAPSHOT, subject=name, line=_line_of(mailbox, "snapshot"), sentence=sentence)


def _closed(mailbox: Mailbox) -> Iterator[Finding]:
    table = table_of(mailbox, "closed")
    rows = table.rows if table else ()
    line = _line_of(mailbox, "closed")
    for key, count in Counter(map(row_key, rows)).items():
        if count > 1:
            sentence = f"The closed summary has {shortened(key.upper(), _SHOWN)} {count} times."
            yield Finding(kind=CLOSED_ROW, subject=key.upper(), line=line, sentence=sentence)
    for row in rows:
        found = row_cells(row)
        if len(found) < len(COLUMNS["closed"]) or not all(found):
            sentence = (
                f"The row of {shortened(found[0], _SHOWN) or 'nothing'} in the closed summary is not complete."
            )
            yield Finding(kind=CLOSED_ROW, subject=found[0], line=line, sentence=sentence)
    keys = set(map(row_key, rows))
    for card in mailbox.cards:
        if not is_open(card.message) and card.message.id.casefold() not in keys:
            yield _about(mailbox, card, CLOSED_ROW, "is closed and not in the closed summary")


def _line_of(mailbox: Mailbox, name: SectionName) -> int:
    section = mailbox.section(name)
    return mailbox.line_of(section.start) if section else 0


def _about(mailbox: Mailbox, card: Card, kind: str, what: str) -> Finding:
    message: Message = card.message
    line = mailbox.line_of(card.start)
    return Finding(kind=kind, subject=message.id, line=line, owner=message.sender, sentence=f"{message.id} {what}.")


def _bare(name: str) -> str:
    return name.partition("(")[0].strip()
