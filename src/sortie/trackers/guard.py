"""A tracker that keeps the promise of its Protocol: whatever goes wrong inside it comes out as a `TrackerError`.

Trackers come from other packages too. A defect in one must cost a tick, not the service and its agents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from pathlib import Path
from typing import TypeVar

from ..core.model import Issue
from ..errors import TrackerError
from .tracker import Candidates, Tracker

T = TypeVar("T")


class GuardedTracker:
    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    async def fetch_candidates(self) -> Candidates:
        return await _guarded(self._tracker.fetch_candidates())

    async def fetch_issue(self, issue_id: str) -> Issue:
        return await _guarded(self._tracker.fetch_issue(issue_id))

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        return await _guarded(self._tracker.fetch_states(issue_ids))

    async def transition(self, issue_id: str, state: str) -> None:
        await _guarded(self._tracker.transition(issue_id, state))

    async def comment(self, issue_id: str, body: str) -> None:
        await _guarded(self._tracker.comment(issue_id, body))

    def watched_files(self) -> tuple[Path, ...]:
        return self._tracker.watched_files()

    async def aclose(self) -> None:
        await _guarded(self._tracker.aclose())


async def _guarded(call: Awaitable[T]) -> T:
    try:
        return await call
    except (TrackerError, TimeoutError):
        raise
    except Exception as error:  # the edge to somebody else's code
        message = f"the tracker failed: {type(error).__name__}: {error}"
        raise TrackerError(TrackerError.API, message) from error
