"""Follows issues that were handed over until a person moves them on, with few calls.

So issues shown as ready for review really are, and the workspace of an accepted one is removed as soon as that is
seen. Each look reads the states of a few of them, in turn; the others keep their last known state.
"""

from __future__ import annotations

from collections.abc import Collection

import anyio

from ..core.observe import in_review
from ..core.schedule import Schedule
from ..errors import TrackerError
from ..trackers.tracker import Tracker

# Those that were handed over last; of older ones nothing is said any more.
MOST_FOLLOWED = 100
# So many are asked for in a look where that takes calls.
ASKED_IN_A_LOOK = 3
# A look has better things to wait for.
PATIENCE = 5.0


class Reviews:
    """Of one source; it remembers whose turn it is."""

    def __init__(self) -> None:
        self._next = 0

    async def states(self, schedule: Schedule, listed: Collection[str], tracker: Tracker) -> dict[str, str]:
        """The state of each that is followed; without those that are `listed`, and those that are gone."""
        followed = [key for key in in_review(schedule) if key not in listed][:MOST_FOLLOWED]
        states = {key: schedule.issues[key].state for key in followed}
        is_near = bool(tracker.watched_files())  # files are read anyway
        asked = followed if is_near else self._whose_turn(followed)
        if not asked:
            return states
        with anyio.move_on_after(PATIENCE):
            try:
                told = await tracker.fetch_states(asked)
            except TrackerError:
                return states  # more important calls meet the same error and report it
            return {key: state for key, state in states.items() if key not in asked} | told
        return states

    def _whose_turn(self, followed: list[str]) -> list[str]:
        if self._next >= len(followed):
            self._next = 0
        first, self._next = self._next, self._next + ASKED_IN_A_LOOK
        return followed[first : self._next]
