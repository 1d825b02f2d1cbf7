"""Writes to the tracker that must happen once: planned in the log, carried out, ticked off.

The tracker is asked first whether they are needed: a transition is not, once the issue left the active states; a
comment is not, after a crash, if one with its mark is there.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec import Struct

from ..core.events import EffectDone, EffectPlanned
from ..core.fingerprint import mark, mark_of
from ..core.model import Issue
from ..core.policy import Policy
from ..errors import TrackerError
from ..trackers.tracker import Tracker
from .ledger import Ledger

TRACKER_DEADLINE = 30.0
_NO_ANSWER = f"the tracker did not answer within {TRACKER_DEADLINE:g} s"


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


class Delivery(Struct, frozen=True):
    """`state` is where a transition left the issue, or where it was found not to be active any more."""

    ok: bool
    state: str = ""


async def deliver(
    effect: Effect, tracker: Tracker, ledger: Ledger, now: Callable[[], float], *, again: bool = False
) -> Delivery:
    """Carry it out, tick it off; not ok where the tracker refused. `again`: it may have happened before a crash."""
    error = state = ""
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            if effect.verb == "transition":
                state = await _move(effect, tracker, ledger.schedule.policy)
            elif not (again and await _is_there(effect, tracker)):
                await tracker.comment(effect.issue_id, mark(effect.argument, effect.effect_id))
    except TrackerError as failure:
        error = str(failure)
    except TimeoutError:
        error = _NO_ANSWER
    moved = state.lower() == effect.argument.lower()
    await ledger.record(
        EffectDone(
            at=now(),
            issue_id=effect.issue_id,
            run_id=effect.run_id,
            effect_id=effect.effect_id,
            verb="transition" if effect.verb == "transition" else "comment",
            ok=not error,
            detail=error or (state if moved or not state else f"none needed, the issue is in {state}"),
        )
    )
    return Delivery(not error, state)


async def _move(effect: Effect, tracker: Tracker, policy: Policy) -> str:
    """Only an issue that is active now is moved: people move issues too, and so did we before a crash."""
    issue = await tracker.fetch_issue(effect.issue_id)
    if not policy.is_active(issue.state):
        return issue.state
    await tracker.transition(effect.issue_id, effect.argument)
    return effect.argument


async def _is_there(effect: Effect, tracker: Tracker) -> bool:
    issue = await tracker.fetch_issue(effect.issue_id)
    return any(mark_of(comment.body) == effect.effect_id for comment in issue.comments or ())


async def show_progress(issue: Issue, target: str, tracker: Tracker, warn: Callable[[str, str], None]) -> bool:
    """Move an issue to the in-progress state, unless somebody, perhaps the agent, moved it meanwhile.

    A write that has begun is not given up: whether it will be made would be anybody's guess.
    """
    if not target or issue.state.lower() == target.lower():
        return False
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            found = await tracker.fetch_issue(issue.id)
        if found.state != issue.state:
            return False
        with anyio.CancelScope(shield=True), anyio.fail_after(TRACKER_DEADLINE):
            await tracker.transition(issue.id, target)
    except (TrackerError, TimeoutError) as error:
        warn(f"the transition to {target} failed", str(error) or _NO_ANSWER)
        return False
    return True
