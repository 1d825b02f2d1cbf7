"""The end of a run: verdict, our own writes to the source, settlement. Each step is on disk before the next.

A crash between the steps leaves the claim with its verdict; `resume` goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from ..core import events as ev
from ..core.conclude import Next, Outcome, conclude, is_not_begun, settle
from ..core.model import Issue, Usage, like
from ..core.observe import fingerprint
from ..core.records import Claim
from ..errors import TrackerError
from ..protocol.foreign_text import shortened
from ..sources.source import Source
from .context import Context
from .effects import NO_ANSWER, TRACKER_DEADLINE, deliver, entries, planned
from .tracker_limit import Patience

# What an agent said at last may have many MiB; from here on it is kept in memory and in the store.
LONGEST_REASON = 10_000


class Ending:
    """`issue` is the last known version; it is looked up again only where a fingerprint is needed.

    `is_latest` says that no look has shown something else of it since, `waits` that there is time to wait for the
    end of a limit of the tracker. Without it, or where we are asked to stop meanwhile, `Postponed` is raised: the
    verdict is on record, and `resume` goes on.
    """

    def __init__(
        self,
        context: Context,
        source: Source,
        claim: Claim,
        issue: Issue,
        *,
        is_latest: bool = True,
        waits: bool = True,
    ) -> None:
        self._context = context
        self._ledger = context.ledger
        self._source = source
        self._claim = claim
        self._issue = issue
        self._is_latest = is_latest
        self._waits = waits

    async def finish(self, outcome: Outcome, usage: Usage, model: str = "") -> None:
        outcome = replace(outcome, reason=self._told(outcome.reason), error=self._told(outcome.error))
        begun, writes = self._left(), self._writes(outcome, usage)
        ended = like(
            ev.RunEnded,
            outcome,
            at=self._now(),
            issue_id=self._claim.issue_id,
            run_id=self._claim.run_id,
            usage=usage,
            model=model,
            handoff_planned=any(write.verb == "transition" for write in writes),
            fingerprint=fingerprint(self._issue) if self._issue.comments is not None else "",
        )
        handed = None
        if begun or writes:
            await self._ledger.record(ended, *writes)
            await self._deliver(begun, again=True)
            handed = await self._deliver(writes, again=False)
        else:
            self._ledger.post(ended)
        await self._settle(outcome, usage, handed)

    async def resume(self, ended: ev.RunEnded, *, handed_before: bool) -> None:
        """Go on after a crash: the verdict stands, what is pending is delivered, the claim is given up.

        `handed_before` says that the hand-off was made already, wherever a person has moved the issue since.
        """
        handed = await self._deliver(self._left(), again=True)
        await self._settle(like(Outcome, ended), ended.usage, handed_before or handed, seen=ended.fingerprint)

    def _told(self, text: str) -> str:
        return shortened(self._context.redactor.text(text), LONGEST_REASON)

    def _left(self) -> list[ev.EffectPlanned]:
        """Writes of this run that were planned and not made."""
        effects = self._context.schedule.effects.values()
        return [one for one in effects if one.run_id == self._claim.run_id and one.verb != "record"]

    def _writes(self, outcome: Outcome, usage: Usage) -> list[ev.EffectPlanned]:
        if is_not_begun(self._context.schedule, self._claim, outcome, usage):
            return []
        now, clock = self._now(), self._context.clock
        seconds = max(clock.on_calendar(now) - self._claim.claimed_at, 0.0)
        writes = self._source.writes_at_end(self._issue, self._claim, outcome, usage, seconds)
        return [planned(self._claim, write, now) for write in writes]

    async def _deliver(self, effects: Sequence[ev.EffectPlanned], *, again: bool) -> bool | None:
        """Carry them out in order. The answer is whether the hand-off among them worked; None where none was due,
        because none is among them or the issue is not active any more."""
        handed = None
        for effect in effects:
            if effect.verb == "record":
                continue
            await self._ledger.flushed()  # that the one before was made is known before the next one is
            delivery = await deliver(
                effect,
                self._source,
                self._now,
                again=again,
                by_hand=self._claim.by_hand,
                patience=Patience(self._context.limit, waits=self._waits),
            )
            self._ledger.post(delivery.done)
            if effect.verb == "transition":
                self._issue = replace(self._issue, state=delivery.state or self._issue.state)
                self._is_latest = self._is_latest or bool(delivery.state)
                elsewhere = delivery.ok and delivery.state.lower() != effect.argument.lower()
                handed = None if elsewhere else delivery.ok
        return handed

    async def _settle(self, outcome: Outcome, usage: Usage, handed: bool | None, *, seen: str = "") -> None:
        """`seen` is the fingerprint to park with; without one it is taken now. Nothing waits for the disk here:
        whoever dies before this is written finds the verdict, and settles once more."""
        schedule, claim, used = self._context.schedule, self._claim, usage != Usage()
        judged, given_up = Next(then="released", why=outcome.error), None
        if (outcome.status == "succeeded" and not outcome.stop) or schedule.policy.tries_once:
            judged = self._source.conclude(claim, outcome, self._issue.state, handed)
        elif outcome.status in ("failed", "timed_out", "stalled"):
            given_up = self._source.give_up(claim, outcome, schedule.spent_on(claim.issue_id))
        result = settle(schedule, claim, outcome, judged, used=used, now=self._now(), given_up=given_up)
        if not seen and result.park:
            await self._look_again()
            seen = fingerprint(self._issue)
        settled = conclude(
            schedule,
            claim,
            outcome,
            judged,
            used=used,
            now=self._now(),
            given_up=given_up,
            state=self._issue.state if self._is_latest else None,
            fingerprint=seen,
        )
        begun = not is_not_begun(schedule, claim, outcome, usage)
        told = self._source.writes_when_settled(self._issue, claim, outcome, result) if begun else ()
        self._ledger.post(
            *settled,
            *(self._context.moved(claim.issue_id, result.left) if result.left else ()),
            *entries(claim.issue_id, claim.run_id, told, self._now()),
        )

    async def _look_again(self) -> None:
        """The fingerprint must be that of the issue after our own last write."""
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                self._issue = await self._source.fetch(self._claim.issue_id)
                self._is_latest = True
        except (TrackerError, TimeoutError) as error:
            self._context.limit.is_met(error)
            self._context.note(
                "warning",
                f"the issue could not be looked at again: {str(error) or NO_ANSWER}",
                issue_id=self._claim.issue_id,
                run_id=self._claim.run_id,
            )

    def _now(self) -> float:
        return self._context.clock.now()
