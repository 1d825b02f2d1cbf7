"""What follows the end of a run: hand over, try again, park, or let go. The exit table of the protocol, in code.

| run ended                              | hand-off              | then                                        |
|----------------------------------------|-----------------------|---------------------------------------------|
| completed, `needs-human-review`        | if configured, active | released; parked if active without hand-off |
| completed, `blocked`                   | never                 | parked                                      |
| completed, no signal, active           | if configured         | released; without hand-off: continuation    |
| completed, no signal, not active       | no                    | released                                    |
| failed, timed out, stalled             | no                    | error retry with back-off                   |
| failed for good (refusals)             | no                    | parked                                      |
| the agent cannot run at all            | no                    | dispatch held; refunded if it did not work  |
| provider's limit                       | no                    | retry when the limit ends; session refunded |
| stopped: shutdown or crash             | no                    | retry at once; session refunded             |
| stopped: budget or operator            | no                    | parked                                      |
| stopped: issue done, gone, inactive    | no                    | released                                    |
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .events import Park, ParkKind, ProviderPaused, Retry, RunStatus
from .policy import Policy
from .retry import CONTINUATION_DELAY, backoff
from .schedule import Running, Schedule

LIMIT_WITHOUT_RESET = 300.0
SHORTEST_LIMIT = 10.0
LONGEST_LIMIT = 8 * 86400.0

# Faults of the agent itself, not of the issue: every other run would end the same way. To try again costs nothing
# where the program is missing; elsewhere it is a question to a provider.
PROGRAM_FAULTS = frozenset({"agent_not_found", "agent_not_executable"})
AGENT_FAULTS = PROGRAM_FAULTS | {"agent_auth", "agent_config"}
FIRST_HOLD = 1.0
LONGEST_HOLD = 3600.0
LONGEST_HOLD_OF_A_PROGRAM = 30.0


class Outcome(Struct, frozen=True, kw_only=True):
    """How a run ended. `stop` is our own decision to end it, which outweighs anything the agent's exit says."""

    status: RunStatus
    turns: int
    soft_stop: str = ""
    reason: str = ""
    error: str = ""
    error_kind: str = ""
    retryable: bool = True
    limited_until: float | None = None
    stop: str = ""
    session_id: str = ""


def stopped(outcome: Outcome, cause: str, detail: str) -> Outcome:
    """The outcome of a run that we ended ourselves."""
    by_cause: dict[str, RunStatus] = {"stalled": "stalled", "timed_out": "timed_out"}
    return replace(
        outcome, status=by_cause.get(cause, "cancelled"), stop=cause, error=detail, error_kind=cause, retryable=True
    )


class Settlement(Struct, frozen=True, kw_only=True):
    """`pause_until` is how long no other run of the same agent starts."""

    why: str
    retry: Retry | None = None
    park: Park | None = None
    refund: bool = False
    refund_turns: bool = False
    pause_until: float | None = None


def is_agent_fault(outcome: Outcome) -> bool:
    return outcome.status == "failed" and outcome.error_kind in AGENT_FAULTS and not outcome.stop


def wants_handoff(outcome: Outcome, policy: Policy, state: str) -> bool:
    """Whether the end of this run is to move the issue to the hand-off state."""
    return (
        bool(policy.handoff_state)
        and not outcome.stop
        and outcome.status == "succeeded"
        and outcome.soft_stop != "blocked"
        and policy.is_active(state)
    )


def settle(
    outcome: Outcome,
    run: Running,
    policy: Policy,
    *,
    state: str,
    handoff: bool | None,
    fingerprint: str,
    now: float,
    faults: int = 0,
    works_for_others: bool = False,
    used: bool = False,
) -> Settlement:
    """What follows. `handoff` is None where none was due, else whether it worked; `state` is the issue's own.

    `faults` is how many runs in a row have met a fault of the agent before this one; where it `works_for_others`
    in spite of that, the fault is this issue's own. `used` says that the run has cost tokens or money.
    """
    if outcome.stop:
        return _after_stop(outcome, run, policy, fingerprint, now)
    if is_agent_fault(outcome) and not works_for_others:
        hold = _after_agent_fault(outcome, run, faults, now)
        if not (outcome.turns or used):
            return hold
        # It worked before it failed: that is paid for, or it could go on for ever.
        failed = _after_failure(replace(outcome, retryable=True), run, policy, fingerprint, now)
        return replace(failed, pause_until=hold.pause_until)
    if outcome.error_kind == "rate_limited":
        return _after_limit(outcome, run, now)
    if outcome.status != "succeeded":
        return _after_failure(outcome, run, policy, fingerprint, now)
    if handoff:
        return Settlement(why=f"handed over to {policy.handoff_state}")
    if outcome.soft_stop == "blocked" or (outcome.soft_stop and policy.is_active(state)):
        return _parked(outcome, run, "signal", outcome.reason or outcome.soft_stop, fingerprint)
    if not policy.is_active(state):
        return Settlement(why=f"the issue is in {state or 'no known state'}, which is not active")
    why = "the agent goes on" if handoff is None else f"the hand-off to {policy.handoff_state} failed"
    return Settlement(why=why, retry=_again(outcome, run, "continuation", now + CONTINUATION_DELAY))


def pause(
    outcome: Outcome, settlement: Settlement, run: Running, schedule: Schedule, now: float
) -> list[ProviderPaused]:
    """How the end of this run holds up others of the same agent."""
    fault = schedule.fault_of(run.agent)
    if settlement.pause_until is None or (fault and run.run_id not in schedule.trials):
        return []  # a run that began before the fault was known tells nothing new
    paused = ProviderPaused(
        at=now,
        issue_id=run.issue_id,
        run_id=run.run_id,
        provider=run.agent,
        until=settlement.pause_until,
        detail=outcome.error,
        error_kind=outcome.error_kind,
        tries=(fault.tries if fault else 0) + 1 if is_agent_fault(outcome) else 0,
    )
    return [paused]


def _after_stop(outcome: Outcome, run: Running, policy: Policy, fingerprint: str, now: float) -> Settlement:
    match outcome.stop:
        case "shutdown" | "crash":
            why = "the orchestrator stopped" if outcome.stop == "shutdown" else "the orchestrator died"
            retry = _again(outcome, run, "resume", now, failures=run.failures)
            return Settlement(why=why, retry=retry, refund=True)
        case "budget":
            return _parked(outcome, run, "budget", outcome.error, fingerprint)
        case "operator":
            return _parked(outcome, run, "operator", outcome.error, fingerprint)
        case "stalled" | "timed_out":
            return _after_failure(outcome, run, policy, fingerprint, now)
        case _:
            return Settlement(why=outcome.error)


def _after_limit(outcome: Outcome, run: Running, now: float) -> Settlement:
    until = now + LIMIT_WITHOUT_RESET if outcome.limited_until is None else outcome.limited_until
    # The time comes from the agent: one in the past must not make us spin, one in milliseconds must not stop us
    # for ages. The bounds stand first: they are what `min` and `max` answer for a time that is not a number.
    due = min(now + LONGEST_LIMIT, max(now + SHORTEST_LIMIT, until))
    retry = _again(outcome, run, "limit", due, failures=run.failures)
    return Settlement(why="the provider's limit is reached", retry=retry, refund=True, pause_until=due)


def _after_agent_fault(outcome: Outcome, run: Running, faults: int, now: float) -> Settlement:
    """The run counts as not begun; the next one tries whether the fault is gone, later after each failure."""
    again = replace(_again(outcome, run, "held", now, failures=run.failures), attempt=run.attempt)
    longest = LONGEST_HOLD_OF_A_PROGRAM if outcome.error_kind in PROGRAM_FAULTS else LONGEST_HOLD
    until = now + min(FIRST_HOLD * 2.0 ** min(faults, 30), longest)
    return Settlement(why=outcome.error, retry=again, refund=True, refund_turns=True, pause_until=until)


def _after_failure(outcome: Outcome, run: Running, policy: Policy, fingerprint: str, now: float) -> Settlement:
    if not outcome.retryable:
        return _parked(outcome, run, "error", outcome.error, fingerprint)
    failures = (0 if outcome.turns else run.failures) + 1
    due = now + backoff(failures, policy.backoff_cap, run.issue_id)
    return Settlement(why=outcome.error, retry=_again(outcome, run, "error", due, failures=failures))


def _again(
    outcome: Outcome,
    run: Running,
    kind: Literal["error", "continuation", "resume", "limit", "held"],
    due: float,
    *,
    failures: int = 0,
) -> Retry:
    return Retry(
        kind=kind,
        attempt=run.attempt + 1,
        due_at=due,
        failures=failures,
        error=outcome.error,
        session_id=outcome.session_id,
    )


def _parked(outcome: Outcome, run: Running, kind: ParkKind, reason: str, fingerprint: str) -> Settlement:
    park = Park(
        kind=kind,
        reason=reason,
        fingerprint=fingerprint,
        attempt=run.attempt,
        session_id=outcome.session_id,
    )
    return Settlement(why=reason, park=park)
