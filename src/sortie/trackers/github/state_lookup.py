"""The present states of some issues, with few calls: many of them are among those that changed last.

An issue that is left out is gone, and its run ends. So nothing is left out on a guess: an issue of which GitHub
says nothing useful at the moment keeps the state that it was last seen in, or else the whole question fails.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from ...errors import TrackerError
from .api import GitHubApi, side_by_side
from .own_writes import OwnWrites
from .records import Record, read_records
from .states import States

# So many are cheaper asked for one by one.
FEW = 3
LISTED_FOR = 2.0
MOST_REMEMBERED = 5000
RECENT = {"state": "all", "sort": "updated", "direction": "desc", "per_page": "100"}


class StateLookup:
    def __init__(self, api: GitHubApi, states: States, writes: OwnWrites) -> None:
        self._api = api
        self._states = states
        self._writes = writes
        self._listed: Mapping[int, Record] = {}
        self._listed_at = float("-inf")
        self._last: dict[int, str] = {}

    def learn(self, listed: Mapping[int, Record]) -> None:
        """A look has just shown these."""
        self._listed, self._listed_at = listed, time.monotonic()

    async def states_of(self, numbers: Collection[int]) -> dict[int, str]:
        """Without those that do not exist."""
        found = self._just_listed(numbers)
        rest = [number for number in numbers if number not in found]
        if len(rest) > FEW:
            recent = (await self._api.get("/issues", RECENT, look=True)).read(list[Any])
            found |= self._told_by(
                {record.number: record for record in read_records(recent, self._api.repository)[0]}, rest
            )
            rest = [number for number in rest if number not in found]
        answers = await side_by_side([partial(self._one, number) for number in rest])
        learned = {number: state for number, state in zip(rest, answers, strict=True) if isinstance(state, str)}
        failed = {number: error for number, error in zip(rest, answers, strict=True) if not isinstance(error, str)}
        found |= learned
        for number, error in failed.items():
            if error is None:
                continue
            if not found or number not in self._last:
                raise error
            found[number] = self._last[number]
        self._remember(found)
        return found

    def _just_listed(self, numbers: Collection[int]) -> dict[int, str]:
        """From the look that this question belongs to, but for what was active in it: that may have moved since."""
        if time.monotonic() - self._listed_at > LISTED_FOR:
            return {}
        shown = self._told_by(self._listed, numbers)
        return {number: state for number, state in shown.items() if not self._states.is_active(state)}

    def _told_by(self, listed: Mapping[int, Record], numbers: Collection[int]) -> dict[int, str]:
        """What a list says of these; those that we moved a moment ago may have to be asked for themselves."""
        records = (self._writes.listed(listed[number]) for number in numbers if number in listed)
        return {record.number: self._states.state_of(record.standing) for record in records if record}

    async def _one(self, number: int) -> str | TrackerError | None:
        """Its state; None where it does not exist; the error where it may be this issue alone that has one."""
        try:
            record = self._writes.seen(await self._api.fetch(number, look=True))
            return self._states.state_of(record.standing)
        except TrackerError as error:
            if error.kind == TrackerError.NOT_FOUND:
                return None
            if error.kind in (TrackerError.API, TrackerError.PAYLOAD):
                return error
            raise

    def _remember(self, found: Mapping[int, str]) -> None:
        """Not what is over: to tell that of an issue by memory could cost its workspace."""
        for number, state in found.items():
            self._last.pop(number, None)
            if not self._states.is_terminal(state):
                self._last[number] = state
        for number in list(self._last)[:-MOST_REMEMBERED]:
            del self._last[number]
