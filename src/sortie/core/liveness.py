"""When a run has been silent, or in one turn, for too long."""

from __future__ import annotations

from msgspec import Struct

from .actions import Overdue
from .policy import Policy


class Pulse(Struct, kw_only=True):
    """The life signs of one run. `turn_started` is None between turns, where hooks have limits of their own."""

    issue_id: str
    run_id: str
    last_sign: float
    turn_started: float | None = None


def overdue(pulses: list[Pulse], policy: Policy, now: float) -> tuple[Overdue, ...]:
    return tuple(late for pulse in pulses if (late := _late(pulse, policy, now)))


def next_deadline(pulses: list[Pulse], policy: Policy) -> float | None:
    """The earliest time at which a run of these becomes overdue."""
    deadlines = [
        moment
        for pulse in pulses
        for moment in (_end_of_turn(pulse, policy), _end_of_silence(pulse, policy))
        if moment is not None
    ]
    return min(deadlines, default=None)


def _late(pulse: Pulse, policy: Policy, now: float) -> Overdue | None:
    end_of_turn, end_of_silence = _end_of_turn(pulse, policy), _end_of_silence(pulse, policy)
    if end_of_turn is not None and now >= end_of_turn:
        detail = f"the turn took longer than {policy.turn_timeout:g} s (agent.turn_timeout_ms)"
        return Overdue(issue_id=pulse.issue_id, run_id=pulse.run_id, cause="timed_out", detail=detail)
    if end_of_silence is not None and now >= end_of_silence:
        detail = f"no sign of life for {policy.stall_timeout:g} s (agent.stall_timeout_ms)"
        return Overdue(issue_id=pulse.issue_id, run_id=pulse.run_id, cause="stalled", detail=detail)
    return None


def _end_of_turn(pulse: Pulse, policy: Policy) -> float | None:
    return None if pulse.turn_started is None else pulse.turn_started + policy.turn_timeout


def _end_of_silence(pulse: Pulse, policy: Policy) -> float | None:
    if pulse.turn_started is None or policy.stall_timeout <= 0:
        return None
    return max(pulse.last_sign, pulse.turn_started) + policy.stall_timeout
