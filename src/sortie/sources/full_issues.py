"""Reads full records of issues, for trackers whose lists lack comments or blockers.

A list costs a call or two, a full record at least one per issue. So only a few are read in each look: a parked
issue when its entry in the list changed; and in turn those held for blockers that no list shows, because the end of
a blocker changes nothing about the issue itself. Answers are remembered until then. If the list names blockers, the
list counts. After a restart each is read once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..core.model import Blocker, Issue
from ..core.policy import Policy
from ..core.ready_queue import reason_against
from ..core.schedule import Schedule
from ..errors import TrackerError
from ..trackers.tracker import Tracker, fetch_each

# In one look. The rest is read in the next ones, those that have waited longest first.
PARKED_IN_A_LOOK = 20
BLOCKED_IN_A_LOOK = 20
# A look that is not answered within 30 s has failed: what came until then counts.
LONGEST_FETCHING = 10.0
# Many servers tell times in whole seconds: what a person says in the second of our own last write changes nothing
# that is listed. After so many seconds each is asked for once more.
SETTLING = 3.0


class Told(Struct, frozen=True):
    """`issues` take the place of those that were listed, `fetched` names those among them that are new. Of the
    blockers of `unasked` nothing is known but that there were some."""

    issues: Mapping[str, Issue]
    fetched: frozenset[str]
    unasked: frozenset[str]


class _Fetched(Struct, frozen=True):
    """An issue in full, and as it was listed then. `is_settled`: it was the same some seconds later."""

    listed: Issue
    issue: Issue
    at: float
    is_settled: bool = False


class FullIssues:
    """For one tracker; used only by the task that looks. `patience` is how long a look waits for full records."""

    def __init__(self, patience: float = LONGEST_FETCHING, settling: float = SETTLING) -> None:
        self._patience = patience
        self._settling = settling
        self._parked: dict[str, _Fetched] = {}
        self._blocked: dict[str, tuple[Blocker, ...] | None] = {}  # None: not asked for since the start
        self._tried: dict[str, int] = {}  # the look in which it was last asked for
        self._looks = 0

    def learn(self, issue: Issue, policy: Policy) -> None:
        """Remembers the full record of an issue that was read for another reason."""
        if any(not policy.satisfies(blocker.state) for blocker in issue.blocked_by):
            self._blocked[issue.id] = issue.blocked_by
        else:
            self._blocked.pop(issue.id, None)

    async def complete(self, listed: Mapping[str, Issue], schedule: Schedule, tracker: Tracker) -> Told:
        """The listed issues of which there is more to know, with what is known by now."""
        self._looks += 1
        self._forget(listed, schedule)
        bare = [key for key in schedule.parked if key in listed and listed[key].comments is None]
        due = self._next((key for key in bare if self._is_due(listed[key])), PARKED_IN_A_LOOK)
        held = self._next(_held_for_blockers(self._blocked, schedule), BLOCKED_IN_A_LOOK)
        full = await self._fetch(tracker, [*dict.fromkeys((*due, *held))])
        for issue in full.values():
            self.learn(issue, schedule.policy)
        self._parked |= {key: self._fetched(listed[key], full[key]) for key in bare if key in full}
        remembered = {key: known.issue for key in bare if (known := self._known(listed[key]))}
        blocked = {
            key: replace(remembered.get(key, listed[key]), blocked_by=blockers)
            for key, blockers in self._blocked.items()
            if blockers and key in listed and not listed[key].blocked_by
        }
        unasked = (key for key, blockers in self._blocked.items() if blockers is None)
        return Told(remembered | blocked | full, frozenset(full), frozenset(unasked))

    def _forget(self, listed: Mapping[str, Issue], schedule: Schedule) -> None:
        if self._looks == 1:
            held = (key for key, view in schedule.issues.items() if view.blocked_by)
            self._blocked |= dict.fromkeys((key for key in held if key not in self._blocked), None)
        self._parked = {key: known for key, known in self._parked.items() if key in schedule.parked}
        self._blocked = {
            key: known for key, known in self._blocked.items() if key in listed and not listed[key].blocked_by
        }
        self._tried = {
            key: look for key, look in self._tried.items() if key in schedule.parked or key in self._blocked
        }

    def _known(self, listed: Issue) -> _Fetched | None:
        """What was fetched when it was listed as it is now."""
        known = self._parked.get(listed.id)
        return known if known and known.listed == listed else None

    def _is_due(self, listed: Issue) -> bool:
        """That it is listed as before proves nothing without a date."""
        known = self._known(listed)
        if known is None or not listed.updated_at:
            return True
        return not known.is_settled and time.monotonic() - known.at >= self._settling

    def _fetched(self, listed: Issue, issue: Issue) -> _Fetched:
        return _Fetched(listed, issue, time.monotonic(), is_settled=self._known(listed) is not None)

    def _next(self, due: Iterable[str], most: int) -> list[str]:
        return sorted(due, key=lambda key: self._tried.get(key, 0))[:most]

    async def _fetch(self, tracker: Tracker, wanted: list[str]) -> dict[str, Issue]:
        found, failed = await fetch_each(tracker, wanted, patience=self._patience)
        # Whom a limit kept from being asked for has his turn at the next look.
        asked = (key for key, error in failed.items() if error.kind != TrackerError.RATE_LIMITED)
        self._tried |= dict.fromkeys((*found, *asked), self._looks)
        return found


def _held_for_blockers(blocked: Iterable[str], schedule: Schedule) -> Iterator[str]:
    """Those that would start, or be considered, if it were not for their blockers."""
    for key in blocked:
        view = schedule.issues.get(key)
        if view and key not in schedule.running and (reason_against(schedule, view) or ("",))[0] == "blocked-by":
            yield key
