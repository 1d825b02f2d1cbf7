"""Writes to the tracker that must happen once: planned in the log, carried out, ticked off.

After a crash the pending ones are carried out again, and the tracker is asked first whether that is still needed: a
transition is not, once the issue left the active states; a comment is not, if one with its mark is there.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec import Struct

from ..core.events import EffectDone, EffectPlanned
from ..core.fingerprint import mark, mark_of
from ..core.policy import Policy
from ..errors import TrackerError
from ..trackers.port import Tracker
from .ledger import Ledger

TRACKER_DEADLINE = 30.0


class Effect(Struct, frozen=True, kw_only=True):
    effect_id: str
    issue_id: str
    run_id: str
    verb: str
    argument: str

    @classmethod
    def of(cls, planned: EffectPlanned) -> Effect:
        return cls(
            effect_id=planned.effect_id,
            issue_id=planned.issue_id,
            run_id=planned.run_id,
            verb=planned.verb,
            argument=planned.argument,
        )


async def deliver(
    effect: Effect, tracker: Tracker, ledger: Ledger, now: Callable[[], float], *, again: bool = False
) -> bool:
    """Carry it out, tick it off; False where the tracker refused. `again`: it may have happened before a crash."""
    error = ""
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            if not (again and await _is_obsolete(effect, tracker, ledger.world.policy)):
                await _carry_out(effect, tracker)
    except TrackerError as failure:
        error = str(failure)
    except TimeoutError:
        error = f"the tracker did not answer within {TRACKER_DEADLINE:g} s"
    await ledger.record(
        EffectDone(
            at=now(),
            issue_id=effect.issue_id,
            run_id=effect.run_id,
            effect_id=effect.effect_id,
            verb="transition" if effect.verb == "transition" else "comment",
            ok=not error,
            detail=error or (effect.argument if effect.verb == "transition" else ""),
        )
    )
    return not error


async def _carry_out(effect: Effect, tracker: Tracker) -> None:
    if effect.verb == "transition":
        await tracker.transition(effect.issue_id, effect.argument)
    else:
        await tracker.comment(effect.issue_id, mark(effect.argument, effect.effect_id))


async def _is_obsolete(effect: Effect, tracker: Tracker, policy: Policy) -> bool:
    issue = await tracker.fetch_issue(effect.issue_id)
    if effect.verb == "transition":
        return not policy.is_active(issue.state)
    return any(mark_of(comment.body) == effect.effect_id for comment in issue.comments or ())
