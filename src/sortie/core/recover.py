"""What a crash left, judged: a pure function of what the store remembers and what a host found of a run."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import inf

from msgspec.structs import replace

from . import events as ev
from .conclude import Outcome, signalled, stopped
from .model import Usage
from .records import Claim
from .schedule import Schedule


def outcome_after_crash(claim: Claim, signal: str, reason: str, *, recoverable: bool = True) -> Outcome:
    """How a run ended that nobody saw the end of. `signal` is what its agent had written.

    Where its turn had completed, what the agent wrote is its word, and files outlive orchestrators. Everything else
    was cut short.
    """
    reached = Outcome(
        status="cancelled",
        turns=claim.turn if claim.turn_done else max(claim.turn - 1, 0),
        session_id=claim.session_id,
    )
    if claim.stop and claim.stop != "shutdown":
        return stopped(reached, claim.stop, claim.stop_detail)
    if claim.turn_done and signal:
        word = signalled(signal, reason, reached.turns, recoverable=recoverable)
        return replace(word, session_id=claim.session_id)
    return stopped(reached, "crash", "the orchestrator died during this run")


def usage_on_record(log: Iterable[ev.AnyEvent]) -> Usage:
    """What a run had been charged for."""
    return reduce(Usage.plus, (event.usage for event in log if isinstance(event, ev.Charged)), Usage())


def model_on_record(log: Iterable[ev.AnyEvent]) -> str:
    """The last model that a run was charged for, as far as anybody knows."""
    return next((event.model for event in reversed([*log]) if isinstance(event, ev.Charged)), "")


def was_handed_over(log: Iterable[ev.AnyEvent]) -> bool:
    """Whether the hand-off of a run had been made."""
    log = list(log)
    planned = {event.effect_id: event.argument for event in log if isinstance(event, ev.EffectPlanned)}
    done = [event for event in log if isinstance(event, ev.EffectDone) and event.verb == "transition"]
    return any(event.ok and event.detail == planned.get(event.effect_id) for event in done)


def recover(schedule: Schedule, now: float) -> list[ev.AnyEvent]:
    """A clock that was set back must not postpone a retry beyond the longest back-off, nor what was due at once."""
    cap, why = schedule.policy.backoff_cap, "its time lay further ahead than the longest back-off"
    latest = {"limit": inf, "resume": now}
    return [
        ev.RetryDue(at=now, issue_id=issue_id, due_at=limit, why=why)
        for issue_id, waiting in sorted(schedule.waiting.items())
        if waiting.retry.due_at > (limit := latest.get(waiting.retry.kind, now + cap))
    ]
