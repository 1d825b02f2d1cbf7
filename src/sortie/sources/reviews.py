"""Where issues are that were handed over to people: followed until somebody moves them on, in few calls.

So what is said to wait for a review does wait for one, and the workspace of what was accepted goes as soon as that
is seen. A server is asked for a few of them in each look, by turns; what nobody told stays as it is known.
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
                return states  # whoever asks for more important things meets the same, and says so
            return {key: state for key, state in states.items() if key not in asked} | told
        return states

    def _whose_turn(self, followed: list[str]) -> list[str]:
        if self._next >= len(followed):
            self._next = 0
        first, self._next = self._next, self._next + ASKED_IN_A_LOOK
        return followed[first : self._next]
