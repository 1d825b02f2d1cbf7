"""What follows the end of a run: hand over, try again, park, or let go. The exit table of the protocol, in code.

| run ended                              | hand-off              | then                                        |
|----------------------------------------|-----------------------|---------------------------------------------|
| completed, `needs-human-review`        | if configured, active | released; parked where no hand-off was made |
| completed, `blocked`                   | never                 | parked                                      |
| completed, no signal, active           | if configured         | released; without hand-off: continuation    |
| completed, no signal, not active       | no                    | released                                    |
| failed, timed out, stalled             | no                    | error retry with back-off                   |
| failed for good (login, configuration) | no                    | parked                                      |
| provider's limit                       | no                    | retry when the limit ends; session refunded |
| stopped: shutdown or crash             | no                    | retry at once; session refunded             |
| stopped: budget or operator            | no                    | parked                                      |
| stopped: issue done, gone, inactive    | no                    | released                                    |
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .events import Park, ParkKind, Retry, RunStatus
from .policy import Policy
from .retry import CONTINUATION_DELAY, backoff
from .world import Running

LIMIT_WITHOUT_RESET = 300.0
SHORTEST_LIMIT = 10.0
LONGEST_LIMIT = 8 * 86400.0


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
    why: str
    retry: Retry | None = None
    park: Park | None = None
    refund: bool = False


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
) -> Settlement:
    """What follows. `handoff` is None where none was due, else whether it worked; `state` is the issue's own."""
    if outcome.stop:
        return _after_stop(outcome, run, policy, fingerprint, now)
    if outcome.error_kind == "rate_limited":
        return _after_limit(outcome, run, now)
    if outcome.status != "succeeded":
        return _after_failure(outcome, run, policy, fingerprint, now)
    if handoff:
        return Settlement(why=f"handed over to {policy.handoff_state}")
    if outcome.soft_stop:
        return _parked(outcome, run, "signal", outcome.reason or outcome.soft_stop, fingerprint)
    if not policy.is_active(state):
        return Settlement(why=f"the issue is in {state or 'no known state'}, which is not active")
    why = "the agent goes on" if handoff is None else f"the hand-off to {policy.handoff_state} failed"
    return Settlement(why=why, retry=_again(outcome, run, "continuation", now + CONTINUATION_DELAY))


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
    return Settlement(why="the provider's limit is reached", retry=retry, refund=True)


def _after_failure(outcome: Outcome, run: Running, policy: Policy, fingerprint: str, now: float) -> Settlement:
    if not outcome.retryable:
        return _parked(outcome, run, "error", outcome.error, fingerprint)
    failures = (0 if outcome.turns else run.failures) + 1
    due = now + backoff(failures, policy.backoff_cap, run.issue_id)
    return Settlement(why=outcome.error, retry=_again(outcome, run, "error", due, failures=failures))


def _again(
    outcome: Outcome,
    run: Running,
    kind: Literal["error", "continuation", "resume", "limit"],
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
