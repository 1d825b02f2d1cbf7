"""How far a reader has come in a work log, and what was added since: each entry once, however often it is asked.

A cursor holds the place of the last entry it has seen, counted from the start of the body, which edits of the head
do not change. If that entry is still there, only what follows is read. Where it is not, or where the tail alone
cannot tell what it means, the whole log is read and the last known entry is looked for by its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import accumulate
from operator import xor
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ...errors import SortieError
from .event import Event
from .events import events_of, some_events, told_alone
from .head import IndexRow
from .log import Worklog

_KEPT_IDS = 16


class Cursor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`moved` says why more or less than usual was read, and is no part of what is encoded."""

    count: int = 0  # of entries seen
    start: int = 0  # of the last one, from the start of the body
    digest: str = ""
    ids: tuple[str, ...] = ()  # of the last few
    latest: str = ""  # the latest time in a strict heading
    label: str = ""
    date: str = ""
    rows: int = 0
    row_ids: str = "0"  # of all rows together, in any order
    moved: str = ""

    def encode(self) -> str:
        return msgspec.json.encode(msgspec.structs.replace(self, moved="")).decode()

    @classmethod
    def decode(cls, text: str) -> Cursor:
        try:
            return msgspec.json.decode(text.encode(), type=cls)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise SortieError(
                "This is no place in a work log.", fix="Give what `sortie worklog since` printed, or leave it out."
            ) from error


class Step(NamedTuple):
    events: list[Event]
    cursor: Cursor


def step_in_tail(cursor: Cursor, top: Worklog, tail: Worklog, session_id: str) -> Step | None:
    """From the head of the file, and its text from the last entry seen; None where these do not tell everything."""
    if not tail.entries or tail.entries[0].start or tail.entries[0].digest != cursor.digest:
        return None
    new = tail.entries[1:]
    # Another entry with the same first line, by which an entry is named, would have the same time.
    if any(not entry.is_strict or entry.stamp <= cursor.latest for entry in new):
        return None
    rows, fits = _new_rows(cursor, top.index)
    events = told_alone(new, rows, session_id) if fits else None
    if events is None:
        return None
    newest = tail.entries[-1]
    return Step(
        events,
        Cursor(
            count=cursor.count + len(new),
            start=cursor.start + newest.start,
            digest=newest.digest,
            ids=(*cursor.ids, *(entry.entry_id for entry in new))[-_KEPT_IDS:],
            latest=max([cursor.latest, *(entry.stamp for entry in new)]),
            label=newest.session.label,
            date=newest.session.date,
            rows=len(top.index),
            row_ids=_together(top.index),
        ),
    )


def step_in_whole(cursor: Cursor | None, log: Worklog, session_id: str) -> Step:
    if cursor is None:
        return Step(events_of(log, session_id), cursor_at_end(log))
    first, moved = _first_new(cursor, log)
    rows, fits = _new_rows(cursor, log.index)
    if not fits:
        moved = f"{moved} The decision index was changed, so all of it is told again.".strip()
    events = some_events(log, log.entries[first:], rows, session_id)
    return Step(events, msgspec.structs.replace(cursor_at_end(log), moved=moved))


def cursor_at_end(log: Worklog) -> Cursor:
    """Everything that is in the log is seen."""
    if not log.entries:
        return Cursor(rows=len(log.index), row_ids=_together(log.index))
    last = log.entries[-1]
    return Cursor(
        count=len(log.entries),
        start=last.start - log.body_start,
        digest=last.digest,
        ids=tuple(entry.entry_id for entry in log.entries[-_KEPT_IDS:]),
        latest=max((entry.stamp for entry in log.entries if entry.is_strict), default=""),
        label=last.session.label,
        date=last.session.date,
        rows=len(log.index),
        row_ids=_together(log.index),
    )


def _first_new(cursor: Cursor, log: Worklog) -> tuple[int, str]:
    """The number of the first entry not seen, and what is to be said about how it was found."""
    entries = log.entries
    if cursor.count <= 0 or not cursor.ids:
        return 0, ""
    if cursor.count <= len(entries) and entries[cursor.count - 1].entry_id == cursor.ids[-1]:
        is_same = entries[cursor.count - 1].digest == cursor.digest
        return cursor.count, "" if is_same else "The last entry read was changed since."
    places = {entry.entry_id: number for number, entry in enumerate(entries)}
    known = [places[one] for one in cursor.ids if one in places]
    if known:
        change = max(known) + 1 - cursor.count
        what = "removed from" if change < 0 else "put into"
        return max(known) + 1, f"Entries were {what} the part of the log that was read before."
    if cursor.latest:
        moved = (
            "The entries read last are not in the log any more; what follows is all that is later than they were."
        )
        new = (n for n, entry in enumerate(entries) if entry.is_strict and entry.stamp > cursor.latest)
        return next(new, len(entries)), moved
    return 0, "The entries read last are not in the log any more, so all of it is told again."


def _new_rows(cursor: Cursor, rows: Sequence[IndexRow]) -> tuple[Sequence[IndexRow], bool]:
    """Rows are added at the end of the index and, by some, on top: those that were seen stand together."""
    seen = max(cursor.rows, 0)
    sums = [0, *accumulate((int(row.row_id[3:], 16) for row in rows), xor)]
    for start in range(len(rows) - seen + 1):
        if f"{sums[start] ^ sums[start + seen]:x}" == cursor.row_ids:
            return [*rows[:start], *rows[start + seen :]], True
    return rows, False


def _together(rows: Iterable[IndexRow]) -> str:
    return f"{reduce(xor, (int(row.row_id[3:], 16) for row in rows), 0):x}"
