"""When a run has been silent, or in one turn, for too long."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from .model import Late, Overdue, like
from .policy import Policy


class Liveness(Struct, kw_only=True):
    """When one run was last heard. `turn_started` is None between turns, where hooks have limits of their own."""

    issue_id: str
    run_id: str
    last_heard: float
    turn_started: float | None = None


def overdue(runs: list[Liveness], policy: Policy, now: float) -> tuple[Overdue, ...]:
    found = []
    for run in runs:
        for cause, deadline in _deadlines(run, policy):
            if now >= deadline:
                found.append(like(Overdue, run, cause=cause, detail=_detail(cause, policy)))
                break
    return tuple(found)


def next_deadline(runs: list[Liveness], policy: Policy) -> float | None:
    """The earliest time at which a run of these becomes overdue."""
    return min((deadline for run in runs for _, deadline in _deadlines(run, policy)), default=None)


def _deadlines(run: Liveness, policy: Policy) -> Iterator[tuple[Late, float]]:
    if run.turn_started is None:
        return
    yield "timed_out", run.turn_started + policy.turn_timeout
    if policy.stall_timeout > 0:
        yield "stalled", max(run.last_heard, run.turn_started) + policy.stall_timeout


def _detail(cause: Late, policy: Policy) -> str:
    if cause == "timed_out":
        return f"the turn took longer than {policy.turn_timeout:g} s (agent.turn_timeout_ms)"
    return f"no sign of life for {policy.stall_timeout:g} s (agent.stall_timeout_ms)"
