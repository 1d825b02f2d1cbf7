"""The last known version of a run's issue: read from the source before the run starts, and again after each
turn."""

from __future__ import annotations

from functools import partial

import anyio
from msgspec.structs import replace

from ..core.conclude import Outcome, stopped
from ..core.model import Issue
from ..core.observe import seen_now, view_of
from ..core.records import Claim
from ..errors import TrackerError
from ..sources.source import Source
from .context import Context
from .effects import NO_ANSWER, TRACKER_DEADLINE


class KnownIssue:
    """`latest` is the last known version, our own transitions included; `begun_in` is its state when the run began.

    Before the source was asked that is no more than what a look showed: enough to talk of it, not to work on it.
    `was_told` says that it is more.
    """

    def __init__(self, context: Context, source: Source, claim: Claim) -> None:
        self._context = context
        self._source = source
        self._claim = claim
        self._warn = partial(context.note, "warning", issue_id=claim.issue_id, run_id=claim.run_id)
        self._view = view = context.schedule.issues.get(claim.issue_id)
        self.latest = Issue(
            id=claim.issue_id,
            identifier=claim.identifier,
            title=view.title if view else "",
            state=view.state if view else "",
        )
        self.begun_in = self.latest.state
        self.was_told = False
        self._wait = anyio.CancelScope()
        self._is_stopped = False

    @property
    def is_current(self) -> bool:
        """Whether no look has shown something else since."""
        return self._context.schedule.issues.get(self._claim.issue_id) is self._view

    def moved(self, state: str) -> None:
        """By ourselves."""
        self._know(replace(self.latest, state=state))

    def _know(self, issue: Issue) -> None:
        """Remember what a look had shown at that moment: one that shows something else later knows better."""
        self.latest = issue
        self._view = self._context.schedule.issues.get(issue.id)

    def stop(self) -> None:
        """Nobody is asked any more."""
        self._is_stopped = True
        self._wait.cancel()

    async def look_first(self) -> Outcome | None:
        """The outcome of a run that need not start, or must not, because its issue could not be read."""
        outcome = Outcome(status="cancelled", turns=0)
        try:
            issue = await self._ask()
        except TrackerError as error:
            limit = self._context.limit
            until = limit.until if limit.is_met(error) else None
            if until is None and not error.passing:
                raise
            unasked = stopped(outcome, "unasked", f"the tracker could not be asked: {error}")
            return replace(unasked, limited_until=until)
        if issue is None:
            return replace(outcome, stop="gone", error="the issue is no longer in the tracker")
        self.begun_in = issue.state
        if self._is_stopped or self._claim.by_hand:
            return None
        policy = self._source.policy
        if not policy.is_active(issue.state):
            elsewhere = f"the issue is in {issue.state} now, which is not active"
            return replace(outcome, stop="inactive", error=elsewhere)
        if blockers := view_of(issue, policy, parked=False).blocked_by:
            self._context.ledger.post(*seen_now(self._context.schedule, [issue], self._context.clock.now()))
            self._know(issue)
            return replace(outcome, stop="blocked", error=f"it waits for others: {', '.join(blockers)}")
        return None

    async def refresh(self) -> Issue | None:
        """The issue as the source shows it, or as last known where it does not answer; None where it is gone."""
        try:
            return await self._ask()
        except TrackerError as error:
            if not self._context.limit.is_met(error):
                self._warn("the tracker could not be read; the last known state is used", str(error))
            return self.latest

    async def _ask(self) -> Issue | None:
        """None if it is gone; raises `TrackerError` if that is unknown."""
        if self._is_stopped:
            return self.latest
        with anyio.move_on_after(TRACKER_DEADLINE) as self._wait:
            try:
                self._know(await self._source.fetch(self._claim.issue_id))
                self.was_told = True
            except TrackerError as error:
                if error.kind == TrackerError.NOT_FOUND:
                    return None
                raise
            except TimeoutError:
                raise TrackerError(TrackerError.TRANSPORT, NO_ANSWER) from None
        if self._wait.cancelled_caught and not self._is_stopped:
            raise TrackerError(TrackerError.TRANSPORT, NO_ANSWER)
        return self.latest
