"""What the tracker shows, as events about what changed since the last look.

Unchanged issues cost a comparison and leave no trace, so the log grows with what happens, not with time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import anyio
from msgspec.structs import replace

from ..core import events as ev
from ..core.fingerprint import fingerprint
from ..core.model import Issue
from ..core.policy import Policy
from ..core.schedule import Schedule
from ..errors import TrackerError
from ..sources.remarks import Remark, name_of, remarks_on
from ..trackers.tracker import Candidates, Tracker
from .effects import TRACKER_DEADLINE

LONGEST_TITLE = 200


class Findings:
    """One look at the tracker: the events it gives rise to, and the full issues for those that may start now."""

    def __init__(self, candidates: Candidates, policy: Policy) -> None:
        self._candidates = candidates
        self._policy = policy
        self.events: list[ev.AnyEvent] = []
        self.issues: dict[str, Issue] = {issue.id: issue for issue in candidates.issues}
        self.problems = candidates.problems

    def remarks(self) -> list[Remark]:
        """What keeps issues from being worked on by mistake. Walks over all of them: not for every look."""
        return remarks_on(self._candidates, self._policy)


async def look(tracker: Tracker, schedule: Schedule, now: float, touched: Collection[str]) -> Findings:
    """Raises `TrackerError` when the tracker does not answer; then nothing is known and nothing changes.

    `touched` grows, while we wait for answers, by the issues whose runs ended meanwhile: what we are about to hear
    of those may be older than what we know.
    """
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            candidates = await tracker.fetch_candidates()
            missing = _missing(schedule, {issue.id for issue in candidates.issues})
            states = await tracker.fetch_states(missing) if missing else {}
            candidates = await _with_comments(candidates, tracker, schedule)
    except TimeoutError:
        message = f"the tracker did not answer within {TRACKER_DEADLINE:g} s."
        raise TrackerError(TrackerError.TRANSPORT, message) from None
    found = Findings(candidates, schedule.policy)
    found.events.extend(_changed(candidates, schedule, touched, now))
    found.events.extend(_left(found.issues, schedule, missing, states, touched, now))
    return found


async def _with_comments(candidates: Candidates, tracker: Tracker, schedule: Schedule) -> Candidates:
    """Parked issues in full: an answer in a comment is what frees them, and not every tracker lists comments."""
    bare = [issue.id for issue in candidates.issues if issue.comments is None and issue.id in schedule.parked]
    if not bare:
        return candidates
    full = {issue_id: await tracker.fetch_issue(issue_id) for issue_id in bare}
    return replace(candidates, issues=tuple(full.get(issue.id, issue) for issue in candidates.issues))


def view_of(issue: Issue, policy: Policy, *, parked: bool) -> ev.View:
    return ev.View(
        id=issue.id,
        identifier=issue.identifier,
        title=issue.title[:LONGEST_TITLE],
        state=issue.state,
        priority=issue.priority,
        created_at=issue.created_at,
        blocked_by=tuple(name_of(blocker) for blocker in issue.blocked_by if not policy.is_terminal(blocker.state)),
        fingerprint=fingerprint(issue) if parked and issue.comments is not None else "",
    )


def _changed(
    candidates: Candidates, schedule: Schedule, touched: Collection[str], now: float
) -> Iterator[ev.IssueSeen]:
    for issue in candidates.issues:
        view = view_of(issue, schedule.policy, parked=issue.id in schedule.parked)
        if schedule.issues.get(issue.id) != view and issue.id not in touched:
            yield ev.IssueSeen(at=now, issue_id=issue.id, view=view)


def _missing(schedule: Schedule, active: Collection[str]) -> set[str]:
    """Issues we hold something of that are not among the active ones any more: where did they go?"""
    held = {*schedule.running, *schedule.waiting, *schedule.parked}
    return {issue_id for issue_id in held if issue_id in schedule.issues and issue_id not in active}


def _left(
    active: Collection[str],
    schedule: Schedule,
    missing: Collection[str],
    states: dict[str, str],
    touched: Collection[str],
    now: float,
) -> Iterator[ev.IssueSeen | ev.IssueLeft]:
    for issue_id, view in schedule.issues.items():
        if issue_id in active or issue_id in touched:
            continue
        if issue_id not in missing or issue_id not in states:
            yield ev.IssueLeft(at=now, issue_id=issue_id, identifier=view.identifier)
        elif states[issue_id] != view.state:
            yield ev.IssueSeen(at=now, issue_id=issue_id, view=replace(view, state=states[issue_id]))
