"""The end of a run: verdict, our own writes to the tracker, settlement. Each step is on disk before the next.

A crash between the steps leaves the claim with its verdict; `resume` goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from msgspec.structs import asdict, replace

from ..core import events as ev
from ..core.budget import day_of
from ..core.conclude import Outcome, Settlement, is_agent_fault, pause, settle, wants_handoff
from ..core.fingerprint import fingerprint
from ..core.model import Issue, Usage
from ..core.schedule import Running
from ..errors import TrackerError
from ..sources import comments
from ..trackers.tracker import Tracker
from ..workflow.loader import Workflow
from .effects import TRACKER_DEADLINE, Effect, deliver
from .services import Services


class Ending:
    """`issue` is the last known version; it is looked up again only where a fingerprint is needed."""

    def __init__(
        self, services: Services, workflow: Workflow, tracker: Tracker, claim: Running, issue: Issue
    ) -> None:
        self._services = services
        self._ledger = services.ledger
        self._config = workflow.config
        self._policy = workflow.config.policy()
        self._tracker = tracker
        self._claim = claim
        self._issue = issue
        self._used = False

    async def finish(self, outcome: Outcome, usage: Usage) -> None:
        outcome = self._without_secrets(outcome)
        self._used = usage != Usage()
        handoff = wants_handoff(outcome, self._policy, self._issue.state)
        ended = self._verdict(outcome, usage, handoff)
        planned = self._planned(outcome, usage, handoff)
        if planned:
            await self._ledger.record(ended, *planned)
            handed = await self._deliver([Effect.of(effect) for effect in planned], again=False)
            await self._ledger.record(*await self._settlement(outcome, handed))
        else:
            await self._ledger.record(ended, *await self._settlement(outcome, None))

    async def resume(self, ended: ev.RunEnded, pending: Sequence[Effect], *, handed_before: bool) -> None:
        """Go on after a crash: the verdict stands, what is pending is delivered, the claim is given up.

        `handed_before` says that the hand-off was made already, wherever a person has moved the issue since.
        """
        self._used = ended.usage != Usage()
        handed = await self._deliver(pending, again=True)
        settlement = await self._settlement(outcome_of(ended), handed_before or handed, seen=ended.fingerprint)
        await self._ledger.record(*settlement)

    def _verdict(self, outcome: Outcome, usage: Usage, handoff: bool) -> ev.RunEnded:
        return ev.RunEnded(
            at=self._now(),
            issue_id=self._claim.issue_id,
            run_id=self._claim.run_id,
            usage=usage,
            handoff_planned=handoff,
            fingerprint=fingerprint(self._issue) if self._issue.comments is not None else "",
            **asdict(outcome),
        )

    def _planned(self, outcome: Outcome, usage: Usage, handoff: bool) -> list[ev.EffectPlanned]:
        planned: list[ev.EffectPlanned] = []
        if self._is_not_begun(outcome):
            return planned
        if handoff:
            planned.append(self._effect("handoff", "transition", self._policy.handoff_state))
        seconds = max(self._services.clock.on_calendar(self._now()) - self._claim.claimed_at, 0.0)
        wanted = self._config.tracker.comments
        if outcome.status == "succeeded" and wanted.on_completion:
            text = comments.on_completion(outcome, usage, seconds)
            planned.append(self._effect("completion", "comment", text))
        elif outcome.status in ("failed", "timed_out", "stalled") and wanted.on_failure:
            planned.append(self._effect("failure", "comment", comments.on_failure(outcome, usage, seconds)))
        return planned

    def _is_not_begun(self, outcome: Outcome) -> bool:
        """The agent could not run at all, so there is nothing to tell of this issue."""
        worked = outcome.turns or self._used or self._ledger.schedule.works_for_others(self._claim)
        return is_agent_fault(outcome) and not worked

    def _effect(self, name: str, verb: ev.EffectVerb, argument: str) -> ev.EffectPlanned:
        return ev.EffectPlanned(
            at=self._now(),
            issue_id=self._claim.issue_id,
            run_id=self._claim.run_id,
            effect_id=f"{self._claim.run_id}.{name}",
            verb=verb,
            argument=argument,
        )

    async def _deliver(self, effects: Sequence[Effect], *, again: bool) -> bool | None:
        """Carry them out in order. The answer is whether the hand-off among them worked; None where none was due,
        because none is among them or the issue is not active any more."""
        handed = None
        for effect in effects:
            delivery = await deliver(effect, self._tracker, self._ledger, self._now, again=again)
            if effect.verb == "transition":
                self._issue = replace(self._issue, state=delivery.state or self._issue.state)
                elsewhere = delivery.ok and delivery.state.lower() != effect.argument.lower()
                handed = None if elsewhere else delivery.ok
        return handed

    async def _settlement(self, outcome: Outcome, handed: bool | None, *, seen: str = "") -> list[ev.AnyEvent]:
        """`seen` is the fingerprint to park with; without one it is taken now."""
        now = self._now()
        result = self._settle(outcome, handed, now)
        if result.park:
            if not seen:
                await self._look_again()
                seen = fingerprint(self._issue)
            result = replace(result, park=replace(result.park, fingerprint=seen))
        settled = ev.Settled(
            at=now,
            issue_id=self._claim.issue_id,
            run_id=self._claim.run_id,
            identifier=self._claim.identifier,
            why=result.why,
            retry=result.retry,
            park=result.park,
            refund=day_of(self._claim.claimed_at) if result.refund else "",
            refund_turns=self._unfinished_turns(outcome) if result.refund_turns else 0,
        )
        return [*self._new_view(now), *pause(outcome, result, self._claim, self._ledger.schedule, now), settled]

    def _unfinished_turns(self, outcome: Outcome) -> int:
        """The turn that was charged and did not complete; none where the agent did not get that far."""
        return max(self._ledger.schedule.running[self._claim.issue_id].turn - outcome.turns, 0)

    def _new_view(self, now: float) -> list[ev.AnyEvent]:
        """What we know of the issue's state by now, so that no decision is made on an older look at the tracker."""
        view = self._ledger.schedule.issues.get(self._issue.id)
        if view is None or view.state == self._issue.state:
            return []
        moved = replace(view, state=self._issue.state)
        return [ev.IssueSeen(at=now, issue_id=self._issue.id, view=moved)]

    def _settle(self, outcome: Outcome, handed: bool | None, now: float) -> Settlement:
        schedule = self._ledger.schedule
        fault = schedule.fault_of(self._claim.agent)
        return settle(
            outcome,
            self._claim,
            self._policy,
            state=self._issue.state,
            handoff=handed,
            fingerprint="",
            now=now,
            faults=fault.tries if fault else 0,
            works_for_others=schedule.works_for_others(self._claim),
            used=self._used,
        )

    async def _look_again(self) -> None:
        """The fingerprint must be that of the issue after our own last write."""
        try:
            with anyio.fail_after(TRACKER_DEADLINE):
                self._issue = await self._tracker.fetch_issue(self._claim.issue_id)
        except (TrackerError, TimeoutError) as error:
            note = f"the issue could not be looked at again: {error}"
            self._ledger.post(
                ev.Noted(
                    at=self._now(),
                    issue_id=self._claim.issue_id,
                    run_id=self._claim.run_id,
                    level="warning",
                    message=self._services.redactor.text(note),
                )
            )

    def _without_secrets(self, outcome: Outcome) -> Outcome:
        redact = self._services.redactor.text
        return replace(outcome, reason=redact(outcome.reason), error=redact(outcome.error))

    def _now(self) -> float:
        return self._services.clock.now()


def outcome_of(ended: ev.RunEnded) -> Outcome:
    """The outcome that a verdict was made from: its fields bear the same names."""
    return Outcome(**{name: getattr(ended, name) for name in Outcome.__struct_fields__})
