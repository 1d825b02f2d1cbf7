"""What we wrote ourselves a moment ago: GitHub's lists and its search show it only after a while.

GitHub's times have whole seconds, so a record says by its time that it is older than our write, or newer, or
neither: then only the issue itself tells, which is never behind. Nothing is remembered for more than a minute.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

from msgspec import Struct
from msgspec.structs import replace

from ...protocol.foreign_text import parse_time
from .records import Record
from .states import Standing

REMEMBERED = 60.0


class _Move(Struct, frozen=True):
    """`first` and `last` are, by GitHub's clock, the times between which it was written."""

    standing: Standing
    first: float
    last: float
    forgotten_at: float


class OwnWrites:
    """`remembered` is for how many seconds."""

    def __init__(self, remembered: float = REMEMBERED) -> None:
        self._remembered = remembered
        self._moves: dict[int, _Move] = {}
        self._comments: dict[int, float] = {}

    def moved(self, number: int, standing: Standing, first: float, last: float) -> None:
        self._moves[number] = _Move(standing, first, max(first, last), time.monotonic() + self._remembered)

    def commented(self, number: int) -> None:
        self._comments[number] = time.monotonic() + self._remembered

    @property
    def recent(self) -> dict[int, Standing]:
        """How the issues that were moved within the last minute were left."""
        now = time.monotonic()
        self._moves = {number: move for number, move in self._moves.items() if move.forgotten_at > now}
        return {number: move.standing for number, move in self._moves.items()}

    def may_have_comments(self, record: Record) -> bool:
        now = time.monotonic()
        self._comments = {number: until for number, until in self._comments.items() if until > now}
        return record.comments > 0 or record.number in self._comments

    def seen(self, record: Record) -> Record:
        """The issue itself was asked for: with what we wrote only where this is from before that."""
        if record.number not in self.recent:
            return record
        move = self._moves[record.number]
        return replace(record, standing=move.standing) if _changed_at(record) < move.first else record

    def listed(self, record: Record) -> Record | None:
        """This was in a list; None where only the issue itself tells how it stands."""
        if record.number not in self.recent:
            return record
        move = self._moves[record.number]
        if _changed_at(record) > move.last:
            del self._moves[record.number]
            return record
        if _changed_at(record) < move.first:
            return replace(record, standing=move.standing)
        return record if _is_same(record.standing, move.standing) else None


def seconds(date: str) -> float:
    """Of a `Date` header; 0 where there is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError):
        return 0.0


def _changed_at(record: Record) -> float:
    return parse_time(record.updated_at) or 0.0


def _is_same(one: Standing, other: Standing) -> bool:
    def key(standing: Standing) -> tuple[bool, set[str]]:
        return standing.is_closed, {label.lower() for label in standing.labels}

    return key(one) == key(other)
