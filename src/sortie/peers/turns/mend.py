"""Work log and mailbox as they should be after a turn: what stood there before, and what was rightly added since.

Nothing here writes: bytes in, bytes out, and mending twice is mending once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from ..finding import Finding
from ..mailbox.derive import Edit, applied, rederived
from ..mailbox.edits import with_card, without_cards
from ..mailbox.parse import Card, Mailbox
from ..mailbox.parse import parse as parse_mailbox
from ..roster import fold
from ..worklog import head_edit
from ..worklog.head import IndexRow, StatusLine
from ..worklog.log import Lines, Worklog
from ..worklog.matching import Matching, match, raw
from ..worklog.parse import parse as parse_worklog
from ..worklog.verify import EDITED, EXTENDED, IMPERSONATED
from ..worklog.verify_head import (
    FALSE_DECISION,
    MAINTAINERS_LINE,
    ROW_EDITED,
    STATUS_OF_ANOTHER,
)
from .review import MILD

# Entries and rows that say who they are from, and it is not true.
_FALSE = frozenset({IMPERSONATED, FALSE_DECISION})
_ROUNDS = 4


Judge = Callable[[bytes], Iterable[Finding]]


def mend_worklog(old: bytes, new: bytes, judge: Judge) -> bytes:
    """The old text, with those of the new status lines, rows and entries that are not against the rules."""
    return _settled(old, new, judge, _mend_worklog)


def mend_mailbox(old: bytes, new: bytes, judge: Judge, agents: Sequence[str]) -> bytes:
    """The old cards, with new ones and changes that are not against the rules. Where the old one was damaged there
    is nothing to go back to."""
    if parse_mailbox(old).damage:
        return new
    return _settled(old, new, judge, lambda old, now, found: _mend_mailbox(old, now, found, agents))


def _settled(
    old: bytes, new: bytes, judge: Judge, mend: Callable[[bytes, bytes, Sequence[Finding]], bytes]
) -> bytes:
    """What is mended may show more, such as a name that nobody had as long as its line was gone. At worst all that
    is new goes."""
    for _ in range(_ROUNDS):
        findings = tuple(judge(new))
        if all(finding.kind in MILD for finding in findings):
            return new
        new = mend(old, new, findings)
    return new if all(finding.kind in MILD for finding in judge(new)) else old


def _mend_worklog(old: bytes, new: bytes, findings: Sequence[Finding]) -> bytes:
    earlier, later = parse_worklog(old), parse_worklog(new)
    matching = match(earlier.entries, later.entries)
    data = _with_own_end(earlier, later, matching, findings)
    data = _with_rows(_with_status(data, earlier, later, findings), earlier, later, findings)
    return _with_entries(data, later, matching, findings)


def _mend_mailbox(old: bytes, new: bytes, findings: Sequence[Finding], agents: Sequence[str]) -> bytes:
    earlier, later = parse_mailbox(old), parse_mailbox(new)
    about = {fold(one.subject) for one in findings if one.kind not in MILD}
    there = {fold(card.message.id): card for card in reversed(later.cards)}
    known = {fold(card.message.id) for card in earlier.cards}
    edits, archived = [], []
    for card in earlier.cards:
        became, is_wrong = there.get(fold(card.message.id)), fold(card.message.id) in about
        if became is None and not is_wrong and not later.damage:
            archived.append(card.reading)
        elif became is not None and not is_wrong:
            edits.append(Edit(card.start, card.end, _apart(earlier, _raw(later, became))))
    mended = parse_mailbox(applied(old, edits))
    if archived:
        mended = parse_mailbox(without_cards(mended, archived, agents))
    for card in sorted(there.values(), key=lambda card: card.reading.order):
        if fold(card.message.id) not in known | about:
            mended = parse_mailbox(with_card(mended, _raw(later, card).decode("utf-8", "replace") + "\n", agents))
    return rederived(mended, agents)


def _raw(mailbox: Mailbox, card: Card) -> bytes:
    return mailbox.data[card.start : card.end].replace(b"\r\n", b"\n").rstrip() + b"\n"


def _apart(mailbox: Mailbox, card: bytes) -> bytes:
    return (card + b"\n").replace(b"\n", mailbox.eol)


def _with_status(data: bytes, old: Worklog, new: Worklog, findings: Sequence[Finding]) -> bytes:
    lines = Lines(new.data)
    wrong = {one.line for one in findings if one.kind in (STATUS_OF_ANOTHER, MAINTAINERS_LINE)}
    before, after = ({_key(line): line for line in log.status if line.pinned} for log in (old, new))
    for line in after.values():
        was = before.get(_key(line))
        if lines.number(line.start) in wrong or (was and was.text == line.text):
            continue
        if line.agent:
            data = head_edit.with_status(data, line.agent, line.text)
        elif was is not None:
            # Found anew each time: what was set before may have moved it.
            now = next(one for one in parse_worklog(data).status if one.pinned and _key(one) == _key(line))
            data = data[: now.start] + new.data[line.start : line.end] + data[now.end :]
    return data


def _key(line: StatusLine) -> tuple[str, str]:
    return fold(line.label), fold(line.agent)


def _with_rows(data: bytes, old: Worklog, new: Worklog, findings: Sequence[Finding]) -> bytes:
    lines = Lines(new.data)
    false = {one.subject for one in findings if one.kind in _FALSE}
    edited = {one.line for one in findings if one.kind == ROW_EDITED}
    known = [_cells(row) for row in old.index]
    for row in new.index:
        if _cells(row) in known:
            known.remove(_cells(row))
        elif row.row_id not in false and lines.number(row.start) not in edited:
            text = new.data[row.start : row.end].decode("utf-8", "replace").rstrip("\r\n")
            data = head_edit.with_row(data, text)
    return data


def _cells(row: IndexRow) -> tuple[str, ...]:
    return row.decision, row.owner, row.timestamp, row.section


def _with_own_end(old: Worklog, new: Worklog, matching: Matching, findings: Sequence[Finding]) -> bytes:
    """An agent may go on with its own last entry."""
    wrong = {one.subject for one in findings if one.kind in (EDITED, EXTENDED, IMPERSONATED)}
    for one, other in matching.edited:
        entry, became = old.entries[one], new.entries[other]
        if one == len(old.entries) - 1 and entry.entry_id not in wrong and became.text.startswith(entry.text):
            return _appended(old.data[: entry.start], raw(became)) + old.data[entry.end :]
    return old.data


def _with_entries(data: bytes, new: Worklog, matching: Matching, findings: Sequence[Finding]) -> bytes:
    """New ones at the end, with the headings of sections that stand among them there.

    One without a time in its heading may be no entry at the end, but more text of the one before. Then only those
    are put there that are entries wherever they stand.
    """
    false = {one.subject for one in findings if one.kind in _FALSE}
    last = max((other for _, other in (*matching.same, *matching.edited)), default=-1)
    added = [new.entries[at] for at in matching.added if new.entries[at].entry_id not in false]
    end = new.entries[last].end if last >= 0 else min((entry.start for entry in added), default=len(new.data))
    pieces = [raw(entry) for entry in added if entry.start < end]
    kept = {entry.start for entry in added}
    for part in new.parts:
        if part.start >= end and (part.kind in ("session", "section") or part.start in kept):
            pieces.append(new.data[part.start : part.end])
    if not added:
        return data
    there = parse_worklog(data).entries
    whole = reduce(_appended, pieces, data)
    expected = [*(entry.digest for entry in there), *(entry.digest for entry in added)]
    if [entry.digest for entry in parse_worklog(whole).entries] == expected:
        return whole
    return reduce(_appended, (raw(entry) for entry in added if entry.is_strict), data)


def _appended(data: bytes, text: bytes) -> bytes:
    """At the end, after a blank line, with lines that end as the first of the file does."""
    eol = b"\r\n" if b"\r\n" in data[: data.find(b"\n") + 1] else b"\n"
    lines = text.replace(b"\r\n", b"\n").strip(b"\n") + b"\n"
    is_apart = not data.strip() or data.endswith((b"\n\n", b"\n\r\n"))
    between = b"" if is_apart else eol if data.endswith(b"\n") else eol + eol
    return data + between + lines.replace(b"\n", eol)
