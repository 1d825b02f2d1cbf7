"""Which issues stand in the way of others: those they depend on, and their open sub-issues.

Records say how many there are; to name them takes a call or two. What was told is remembered as long as the record
stays the same, for some minutes at most. In one look few are asked for: who has unnamed blockers is held as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import anyio
from msgspec import Struct

from ...core.model import Blocker
from ...errors import TrackerError
from ..tracker import FETCHES_AT_ONCE
from .api import GitHubApi
from .records import Record, read_records
from .states import OPEN, States

ASKED_IN_A_LOOK = 20
REMEMBERED = 300.0
WITHOUT_THE_FEATURE = 3600.0

DEPENDENCIES, SUB_ISSUES = "dependencies/blocked_by", "sub_issues"


class _Known(Struct, frozen=True):
    """`record` as it was when this was told of it."""

    record: Record
    blockers: tuple[Blocker, ...]
    until: float


class Blockers:
    def __init__(self, api: GitHubApi, states: States, *, wait_for_sub_issues: bool) -> None:
        self._api = api
        self._states = states
        self._waits = wait_for_sub_issues
        self._known: dict[int, _Known] = {}
        self._missing: dict[str, float] = {}

    async def of_listed(self, records: Iterable[Record]) -> dict[int, tuple[Blocker, ...]]:
        """Of those that have any by what their records say; a server that does not say names none here."""
        held = [record for record in records if record.open_blockers or (self._waits and record.open_sub_issues)]
        self._known = {record.number: self._known[record.number] for record in held if self._is_known(record)}
        await self._learn([record for record in held if record.number not in self._known][:ASKED_IN_A_LOOK])
        return {
            record.number: self._known[record.number].blockers
            if record.number in self._known
            else (_unnamed(record),)
            for record in held
        }

    def are_known(self, numbers: Iterable[int]) -> bool:
        """Whether to ask again would tell nothing new about any of these."""
        now = time.monotonic()
        return all(number in self._known and self._known[number].until > now for number in numbers)

    async def of(self, record: Record, *, look: bool = False) -> tuple[Blocker, ...]:
        """Asked for now."""
        asked: list[list[Record] | None] = []
        if record.all_blockers != 0:
            asked.append(await self._asked(record, DEPENDENCIES, record.all_blockers, look=look))
        if self._waits and record.open_sub_issues != 0:
            children = await self._asked(record, SUB_ISSUES, record.open_sub_issues, look=look)
            # GitHub counts every closed one as completed, also one that is not planned any more.
            asked.append(children and [child for child in children if not child.standing.is_closed])
        found = [one for told in asked if told for one in told]
        named = {
            blocker.identifier: blocker
            for blocker in (one.blocker(self._states, record.repository) for one in found)
        }
        is_counted = record.open_blockers or (self._waits and record.open_sub_issues)
        if None in asked or (is_counted and all(one.standing.is_closed for one in found)):
            return (*named.values(), _unnamed(record))  # in places that the token may not see
        return tuple(named.values())

    def _is_known(self, record: Record) -> bool:
        known = self._known.get(record.number)
        return known is not None and known.record == record and known.until > time.monotonic()

    async def _learn(self, records: list[Record]) -> None:
        """What cannot be told now is asked for at the next look; nobody starts before that."""
        remaining = iter(records)

        async def learn_remaining() -> None:
            for record in remaining:
                try:
                    blockers = await self.of(record, look=True)
                except TrackerError:
                    return
                self._known[record.number] = _Known(record, blockers, time.monotonic() + REMEMBERED)

        async with anyio.create_task_group() as tasks:
            for _ in range(min(FETCHES_AT_ONCE, len(records))):
                tasks.start_soon(learn_remaining)

    async def _asked(self, record: Record, what: str, count: int | None, *, look: bool) -> list[Record] | None:
        """None where the record counts some, and nobody says which."""
        if self._missing.get(what, 0.0) > time.monotonic():
            return []
        try:
            reply = await self._api.get(f"/issues/{record.number}/{what}", {"per_page": "100"}, look=look)
        except TrackerError as error:
            if error.kind != TrackerError.NOT_FOUND:
                raise
            if count is not None:
                return None
            await self._api.fetch(record.number, look=look)  # it may be the issue that has gone
            # It is there, so it is the server that has no such thing: older ones of companies do not.
            self._missing[what] = time.monotonic() + WITHOUT_THE_FEATURE
            return []
        return read_records(reply.read(list[Any]), self._api.repository)[0]


def _unnamed(record: Record) -> Blocker:
    what = "dependencies" if record.open_blockers else "sub-issues"
    return Blocker("", f"{record.repository}#{record.number}'s {what}", OPEN)
