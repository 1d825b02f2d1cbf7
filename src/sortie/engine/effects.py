"""Writes to the source that must happen once: planned in the log, carried out, ticked off.

The source is asked first whether they are needed: a transition is not, once the issue left the active states; a
comment is not, after a crash, if one with its mark is there. Entries of the work log are only planned here; the
recorder has them written. Writes that meet a rate limit of the tracker are made when it is over, by us or by the
next start: they are late, not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import anyio
from msgspec import Struct

from ..core.events import EffectDone, EffectPlanned
from ..core.hand_off import is_workable
from ..core.model import Issue
from ..core.observe import mark, mark_of
from ..core.records import Claim
from ..errors import TrackerError
from ..sources.source import Source, Write
from .context import Context
from .tracker_limit import Patience, Postponed

TRACKER_DEADLINE = 30.0

# A write that fails for a moment only is tried again after so many seconds.
PAUSES = (1.0, 3.0)
NO_ANSWER = f"the tracker did not answer within {TRACKER_DEADLINE:g} s."


def planned(claim: Claim, write: Write, now: float) -> EffectPlanned:
    return EffectPlanned(
        at=now,
        issue_id=claim.issue_id,
        run_id=claim.run_id,
        effect_id=f"{claim.run_id}.{write.name}",
        verb=write.verb,
        argument=write.argument,
    )


def entries(issue_id: str, run_id: str, writes: Iterable[Write], now: float) -> list[EffectPlanned]:
    """Those of the work log among these writes. Without a run, the moment tells one entry from the next."""
    whose = run_id or f"{issue_id}@{now * 1000:.0f}"
    return [
        EffectPlanned(
            at=now,
            issue_id=issue_id,
            run_id=run_id,
            effect_id=f"{whose}.{write.name}",
            verb=write.verb,
            argument=write.argument,
        )
        for write in writes
        if write.verb == "record"
    ]


class Delivery(Struct, frozen=True):
    """`done` is for the log. `state` is where a transition left the issue, or where it was found, not active."""

    done: EffectDone
    state: str = ""

    @property
    def ok(self) -> bool:
        return self.done.ok


async def deliver(
    effect: EffectPlanned,
    source: Source,
    now: Callable[[], float],
    *,
    again: bool = False,
    by_hand: bool = False,
    pauses: Sequence[float] = PAUSES,
    patience: Patience | None = None,
) -> Delivery:
    """Carry it out; not ok where the source refused. `again`: it may have happened before a crash. `by_hand`: the
    run that planned it was started by a person. What fails for a moment is tried again after each of the `pauses`,
    what meets a limit of the tracker as its `patience` says.

    The caller has recorded the plan, and posts `done`. Whoever dies in between asks again after the next start.
    """
    more = iter(pauses)
    while True:
        failure, said = await _tried(effect, source, again=again, by_hand=by_hand)
        if failure is None:
            break
        again = True  # what was not answered may have happened
        if patience and await patience.outlasts(failure):
            continue
        pause = next(more, None) if failure.passing else None
        if pause is None:
            break
        await anyio.sleep(pause)
    state = said if effect.verb == "transition" else ""
    elsewhere = state and state.lower() != effect.argument.lower()
    detail = f"none needed, the issue is in {state}" if elsewhere else said
    done = EffectDone(
        at=now(),
        issue_id=effect.issue_id,
        run_id=effect.run_id,
        effect_id=effect.effect_id,
        verb=effect.verb,
        ok=failure is None,
        detail=str(failure) if failure else detail,
    )
    return Delivery(done, state)


async def _tried(
    effect: EffectPlanned, source: Source, *, again: bool, by_hand: bool
) -> tuple[TrackerError | None, str]:
    """Why it was not carried out; where a transition left the issue, or what there is to say of an entry."""
    said = ""
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            if effect.verb == "record":
                said = await source.record(effect)
            elif effect.verb == "transition":
                said = await _move(effect, source, by_hand=by_hand)
            elif not (again and await _is_there(effect, source)):
                await source.comment(effect.issue_id, mark(effect.argument, effect.effect_id))
    except TrackerError as failure:
        return failure, ""
    except TimeoutError:
        return TrackerError(TrackerError.TRANSPORT, NO_ANSWER), ""
    return None, said


async def _move(effect: EffectPlanned, source: Source, *, by_hand: bool) -> str:
    """Only an issue that is to be worked on now is moved: people move issues too, and so did we before a crash."""
    state = await _state_of(effect.issue_id, source)
    if not is_workable(source.policy, state, by_hand=by_hand):
        return state
    await source.transition(effect.issue_id, effect.argument)
    return effect.argument


async def _state_of(issue_id: str, source: Source) -> str:
    """Without its comments, of which there may be thousands. Where looks have used up the calls that they have, the
    issue itself is asked for: of those some are kept for runs."""
    try:
        states = await source.fetch_states([issue_id])
    except TrackerError as error:
        if error.kind != TrackerError.RATE_LIMITED:
            raise
        return (await source.fetch(issue_id)).state
    if issue_id not in states:
        raise TrackerError(TrackerError.NOT_FOUND, f"The issue {issue_id} is no longer in the tracker.")
    return states[issue_id]


async def _is_there(effect: EffectPlanned, source: Source) -> bool:
    """By its mark. Who has read one comment of a run can guess the next mark, and our own account need not be one
    whose word counts: a mark of somebody whose does not is ours where nobody else has written one of this run."""
    run = effect.effect_id.rpartition(".")[0]
    marks = [(one, mark_of(one.body) or "") for one in await source.fetch_marked(effect.issue_id)]
    marked = [(one, found) for one, found in marks if found.rpartition(".")[0] == run]
    has_one_author = len({one.author_id or one.author for one, _ in marked}) == 1
    return any(found == effect.effect_id and (one.trusted is not False or has_one_author) for one, found in marked)


async def announce(claim: Claim, writes: Sequence[Write], source: Source, context: Context) -> None:
    """Write what a source has to say when the agent is at work; nobody waits for the entries among it. What a limit
    of the tracker postpones is written when the run ends."""
    ledger, now = context.ledger, context.clock.now
    effects = [planned(claim, write, now()) for write in writes]
    ledger.post(*effects)
    for effect in effects:
        if effect.verb != "record":
            await ledger.flushed()
            with suppress(Postponed):
                patience = Patience(context.limit, waits=False)
                ledger.post((await deliver(effect, source, now, patience=patience)).done)


async def show_progress(issue: Issue, begun_in: str, source: Source, context: Context, run_id: str) -> str:
    """Move an issue to the in-progress state, unless somebody, perhaps the agent, has moved it from the state that
    its run began in. The answer is the new state, empty where it was not moved.

    A write that has begun is not given up: whether it will be made would be anybody's guess.
    """
    target = source.progress_state(issue)
    if not target or begun_in.lower() == target.lower():
        return ""
    try:
        with anyio.fail_after(TRACKER_DEADLINE):
            found = await _state_of(issue.id, source)
        if found != begun_in:
            context.metrics.counts.add("dispatch_transitions", result="skipped")
            return ""
        with anyio.CancelScope(shield=True), anyio.fail_after(TRACKER_DEADLINE):
            await source.transition(issue.id, target)
    except (TrackerError, TimeoutError) as error:
        context.limit.is_met(error)
        context.metrics.counts.add("dispatch_transitions", result="error")
        what = f"the transition to {target} failed"
        context.note("warning", what, str(error) or NO_ANSWER, issue_id=issue.id, run_id=run_id)
        return ""
    context.metrics.counts.add("dispatch_transitions", result="success")
    return target
