"""When a run has been silent, or in one turn, for too long."""

from __future__ import annotations

from msgspec import Struct

from .model import Overdue
from .policy import Policy


class Liveness(Struct, kw_only=True):
    """When one run was last heard. `turn_started` is None between turns, where hooks have limits of their own."""

    issue_id: str
    run_id: str
    last_heard: float
    turn_started: float | None = None


def overdue(runs: list[Liveness], policy: Policy, now: float) -> tuple[Overdue, ...]:
    return tuple(late for run in runs if (late := _late(run, policy, now)))


def next_deadline(runs: list[Liveness], policy: Policy) -> float | None:
    """The earliest time at which a run of these becomes overdue."""
    deadlines = [
        moment
        for run in runs
        for moment in (_end_of_turn(run, policy), _end_of_silence(run, policy))
        if moment is not None
    ]
    return min(deadlines, default=None)


def _late(run: Liveness, policy: Policy, now: float) -> Overdue | None:
    end_of_turn, end_of_silence = _end_of_turn(run, policy), _end_of_silence(run, policy)
    if end_of_turn is not None and now >= end_of_turn:
        detail = f"the turn took longer than {policy.turn_timeout:g} s (agent.turn_timeout_ms)"
        return Overdue(issue_id=run.issue_id, run_id=run.run_id, cause="timed_out", detail=detail)
    if end_of_silence is not None and now >= end_of_silence:
        detail = f"no sign of life for {policy.stall_timeout:g} s (agent.stall_timeout_ms)"
        return Overdue(issue_id=run.issue_id, run_id=run.run_id, cause="stalled", detail=detail)
    return None


def _end_of_turn(run: Liveness, policy: Policy) -> float | None:
    return None if run.turn_started is None else run.turn_started + policy.turn_timeout


def _end_of_silence(run: Liveness, policy: Policy) -> float | None:
    if run.turn_started is None or policy.stall_timeout <= 0:
        return None
    return max(run.last_heard, run.turn_started) + policy.stall_timeout
