"""What follows the end of a run: hand over, try again, park, or let go. The exit table of the protocol, in code.

| run ended                              | hand-off              | then                                        |
|----------------------------------------|-----------------------|---------------------------------------------|
| completed, `needs-human-review`        | if configured, active | released; parked if active without hand-off |
| completed, `blocked`                   | never                 | parked                                      |
| completed, no signal, active           | if configured         | released; without hand-off: continuation    |
| completed, no signal, not active       | no                    | released                                    |
| failed, timed out, stalled             | no                    | error retry, unless the source decides      |
| failed for good (refusals)             | no                    | parked, unless the source decides           |
| the agent cannot run at all            | no                    | dispatch held; refunded if it did not work  |
| provider's limit                       | no                    | retry when the limit ends; session refunded |
| not begun: the tracker did not answer  | no                    | same attempt later; at first it is refunded |
| not begun: others block the issue      | no                    | released, and held for them; refunded       |
| stopped: shutdown or crash             | no                    | retry at once; session refunded             |
| stopped: budget or operator            | no                    | parked                                      |
| stopped: issue done, gone, inactive    | no                    | released                                    |

Where the policy tries each issue once, its source alone says what becomes of one, however its run ended.
Whether an issue of a tracker is handed over, and what its success comes to, is in `hand_off.py`.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from . import events as ev
from .model import Park, ParkKind, Retry, RetryKind, RunStatus, Usage
from .policy import Policy, day_of
from .records import Claim, Pause
from .schedule import Schedule

CONTINUATION_DELAY = 1.0
FIRST_DELAY = 10.0
JITTER = 0.2

LIMIT_WITHOUT_RESET = 300.0
SHORTEST_LIMIT = 10.0
LONGEST_LIMIT = 8 * 86400.0
LONGEST_SILENCE = 3900.0
# Looks work meanwhile, or nothing would start: it is this issue that cannot be read.
FREE_SILENCES = 10

# Faults of the agent itself, not of the issue: every other run would end the same way. To try again costs nothing
# where the program is missing; elsewhere it is a question to a provider.
PROGRAM_FAULTS = frozenset({"agent_not_found", "agent_not_executable"})
AGENT_FAULTS = PROGRAM_FAULTS | {"agent_auth", "agent_config"}
FIRST_HOLD = 1.0
LONGEST_HOLD = 3600.0
LONGEST_HOLD_OF_A_PROGRAM = 30.0

# Our own reasons not to start a run that was claimed already, found when its issue was asked for.
NOT_BEGUN = frozenset({"unasked", "blocked"})

# Nobody's fault: the run goes on as soon as it can, and its session is not charged.
_CUT_SHORT = {
    "shutdown": "the orchestrator stopped",
    "crash": "the orchestrator died",
    "lost": "its host was lost",
}


class Outcome(Struct, frozen=True, kw_only=True):
    """How a run ended. `stop` is our own decision to end it, which outweighs anything the agent's exit says.
    `product` tells what it delivered from anything else, where somebody looked."""

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
    product: str = ""


def stopped(outcome: Outcome, cause: str, detail: str) -> Outcome:
    """The outcome of a run that we ended ourselves."""
    by_cause: dict[str, RunStatus] = {"stalled": "stalled", "timed_out": "timed_out"}
    return replace(
        outcome, status=by_cause.get(cause, "cancelled"), stop=cause, error=detail, error_kind=cause, retryable=True
    )


def signalled(token: str, reason: str, turns: int, *, recoverable: bool = True) -> Outcome:
    """The outcome of a run whose agent left its word; `failed` is the one that says that it did not succeed."""
    if token == "failed":  # noqa: S105 - a word of the protocol
        error = reason or "the agent says that it failed"
        return Outcome(status="failed", turns=turns, error=error, error_kind="task_failed", retryable=recoverable)
    return Outcome(status="succeeded", turns=turns, soft_stop=token, reason=reason)


class Next(Struct, frozen=True, kw_only=True):
    """What a source makes of the end of a run: the issue is done for us, goes on, or waits for a person.

    `state` is where that leaves an issue whose states are kept nowhere but in the store, with the `memo` for it;
    `delay` is in how many seconds one that goes on does so.
    """

    then: Literal["released", "again", "parked"]
    why: str
    state: str = ""
    memo: str = ""
    delay: float = CONTINUATION_DELAY


class Settlement(Struct, frozen=True, kw_only=True):
    """`pause_until` is how long no other run of the same agent starts, `left` the word of the source by which the
    issue is in another state now."""

    why: str
    retry: Retry | None = None
    park: Park | None = None
    refund: bool = False
    refund_turns: bool = False
    pause_until: float | None = None
    left: Next | None = None


def is_agent_fault(outcome: Outcome) -> bool:
    return outcome.status == "failed" and outcome.error_kind in AGENT_FAULTS and not outcome.stop


def with_our_stop(outcome: Outcome, claim: Claim) -> Outcome:
    """What we decided about the run outweighs what its processes said on the way out.

    Only where the agent was done before our signal reached it does its word stand, unless the issue is gone.
    """
    spared = {"shutdown", "terminal", "inactive"}
    if outcome.soft_stop:
        spared |= {"stalled", "timed_out", "operator"}
    if not claim.stop or (outcome.status == "succeeded" and claim.stop in spared):
        return outcome
    return stopped(outcome, claim.stop, claim.stop_detail)


def is_not_begun(schedule: Schedule, claim: Claim, outcome: Outcome, usage: Usage) -> bool:
    """The agent could not run at all, or was not to, so there is nothing to tell of this issue."""
    worked = outcome.turns or usage != Usage() or schedule.works_for_others(claim)
    return outcome.stop in NOT_BEGUN or (is_agent_fault(outcome) and not worked)


def conclude(
    schedule: Schedule,
    claim: Claim,
    outcome: Outcome,
    judged: Next,
    *,
    used: bool,
    now: float,
    given_up: Next | None = None,
    state: str | None = None,
    fingerprint: str = "",
) -> list[ev.AnyEvent]:
    """What follows the verdict on a run, after our own writes: the claim is given up.

    `judged` is what the source makes of a success, `given_up` what it makes of a failure, where it has an opinion;
    `used` says that the run has cost tokens or money. `state` is the issue's own as we know it now, so that no
    decision is made on an older look at the source. `fingerprint` is that of the issue as it is parked.
    """
    result = settle(schedule, claim, outcome, judged, used=used, now=now, given_up=given_up)
    turn, view = schedule.running[claim.issue_id].turn, schedule.issues.get(claim.issue_id)
    known = (state or (view.state if view else "")) if claim.by_hand else ""
    settled = ev.Settled(
        at=now,
        issue_id=claim.issue_id,
        run_id=claim.run_id,
        identifier=claim.identifier,
        why=result.why,
        retry=result.retry,
        park=replace(result.park, fingerprint=fingerprint, state=known) if result.park else None,
        refund=day_of(claim.claimed_at) if result.refund else "",
        # the turn that was charged and did not complete; none where the agent did not get that far
        refund_turns=max(turn - outcome.turns, 0) if result.refund_turns else 0,
    )
    left = result.left
    seen = _new_view(schedule, claim, outcome, left.state if left else state, left.memo if left else None, now)
    return [*seen, *_pause(schedule, claim, outcome, result, now), settled]


def _new_view(
    schedule: Schedule, claim: Claim, outcome: Outcome, state: str | None, memo: str | None, now: float
) -> list[ev.AnyEvent]:
    view = schedule.issues.get(claim.issue_id)
    # A look that finds it gone drops the view, so one beside such a stop is of a later look, which found it again.
    if view is None or claim.stop == "gone":
        return []
    if outcome.stop == "gone":
        return [ev.IssueLeft(at=now, issue_id=claim.issue_id, identifier=claim.identifier)]
    seen = replace(view, state=view.state if state is None else state, memo=view.memo if memo is None else memo)
    return [] if seen == view else [ev.IssueSeen(at=now, issue_id=claim.issue_id, view=seen)]


def _pause(
    schedule: Schedule, claim: Claim, outcome: Outcome, result: Settlement, now: float
) -> list[ev.ProviderPaused]:
    """How the end of this run holds up others of the same agent."""
    fault = schedule.fault_of(claim.paid_by)
    if result.pause_until is None or (fault and claim.run_id not in schedule.trials):
        return []  # a run that began before the fault was known tells nothing new
    paused = ev.ProviderPaused(
        at=now,
        issue_id=claim.issue_id,
        run_id=claim.run_id,
        provider=claim.paid_by,
        until=result.pause_until,
        detail=outcome.error,
        error_kind=outcome.error_kind,
        tries=(fault.tries if fault else 0) + 1 if is_agent_fault(outcome) else 0,
    )
    return [paused]


def settle(
    schedule: Schedule,
    run: Claim,
    outcome: Outcome,
    judged: Next,
    *,
    used: bool,
    now: float,
    given_up: Next | None = None,
) -> Settlement:
    """What `conclude` is going to say; a parking still lacks its fingerprint."""
    policy = schedule.policy
    if policy.tries_once:
        free = is_agent_fault(outcome) and not (outcome.turns or used)
        return replace(_as_judged(outcome, run, "signal", judged, now), refund=free, refund_turns=free)
    if outcome.stop:
        return _after_stop(outcome, run, policy, given_up, now)
    # Where the agent works for others in spite of it, the fault is this issue's own.
    if is_agent_fault(outcome) and not schedule.works_for_others(run):
        hold = _after_agent_fault(outcome, run, schedule.fault_of(run.paid_by), now)
        if not (outcome.turns or used):
            return hold
        # It worked before it failed: that is paid for, or it could go on for ever.
        failed = _after_failure(replace(outcome, retryable=True), run, policy, given_up, now)
        return replace(failed, pause_until=hold.pause_until)
    if outcome.error_kind == "rate_limited":
        return _after_limit(outcome, run, now)
    if outcome.status != "succeeded":
        return _after_failure(outcome, run, policy, given_up, now)
    return _as_judged(outcome, run, "signal", judged, now)


def _as_judged(
    outcome: Outcome, run: Claim, kind: Literal["signal", "error"], judged: Next, now: float
) -> Settlement:
    left = judged if judged.state else None
    match judged.then:
        case "parked":
            return replace(_parked(outcome, run, kind, judged.why), left=left)
        case "again":
            retry = _again(outcome, run, "error" if kind == "error" else "continuation", now + judged.delay)
            return Settlement(why=judged.why, retry=retry, left=left)
        case "released":
            return Settlement(why=judged.why, left=left)


def _after_stop(outcome: Outcome, run: Claim, policy: Policy, given_up: Next | None, now: float) -> Settlement:
    match outcome.stop:
        case cause if cause in _CUT_SHORT:
            retry = _again(outcome, run, "resume", now, failures=run.failures)
            return Settlement(why=_CUT_SHORT[cause], retry=retry, refund=True)
        case "unasked":
            return _after_silence(outcome, run, policy, now)
        case "blocked":
            return Settlement(why=outcome.error, refund=True)
        case "budget" | "operator" as kind:
            return _parked(outcome, run, kind, outcome.error)
        case "stalled" | "timed_out":
            return _after_failure(outcome, run, policy, given_up, now)
        case _:
            return Settlement(why=outcome.error)


def _after_limit(outcome: Outcome, run: Claim, now: float) -> Settlement:
    until = now + LIMIT_WITHOUT_RESET if outcome.limited_until is None else outcome.limited_until
    due = _bounded(until, now, LONGEST_LIMIT)
    retry = _again(outcome, run, "limit", due, failures=run.failures)
    return Settlement(why="the provider's limit is reached", retry=retry, refund=True, pause_until=due)


def _after_silence(outcome: Outcome, run: Claim, policy: Policy, now: float) -> Settlement:
    """The tracker did not tell what the run is about, so it was not begun; the next one asks again."""
    if outcome.limited_until is not None:
        failures, due = run.failures, _bounded(outcome.limited_until, now, LONGEST_SILENCE)
    else:
        failures = run.failures + 1
        due = now + backoff(failures, policy.backoff_cap, run.issue_id)
    retry = replace(_again(outcome, run, "error", due, failures=failures), attempt=run.attempt)
    is_free = outcome.limited_until is not None or failures <= FREE_SILENCES
    return Settlement(why=outcome.error, retry=retry, refund=is_free)


def _bounded(until: float, now: float, longest: float) -> float:
    """The time comes from others: one in the past must not make us spin, one in milliseconds must not stop us for
    ages. The bounds stand first: they are what `min` and `max` answer for a time that is not a number."""
    return min(now + longest, max(now + SHORTEST_LIMIT, until))


def _after_agent_fault(outcome: Outcome, run: Claim, known: Pause | None, now: float) -> Settlement:
    """The run counts as not begun; the next one tries whether the fault is gone, later after each failure."""
    faults = known.tries if known else 0
    again = replace(_again(outcome, run, "held", now, failures=run.failures), attempt=run.attempt)
    longest = LONGEST_HOLD_OF_A_PROGRAM if outcome.error_kind in PROGRAM_FAULTS else LONGEST_HOLD
    until = now + min(FIRST_HOLD * 2.0 ** min(faults, 30), longest)
    return Settlement(why=outcome.error, retry=again, refund=True, refund_turns=True, pause_until=until)


def _after_failure(outcome: Outcome, run: Claim, policy: Policy, given_up: Next | None, now: float) -> Settlement:
    if given_up:
        return _as_judged(outcome, run, "error", given_up, now)
    if not outcome.retryable:
        return _parked(outcome, run, "error", outcome.error)
    failures = (0 if outcome.turns else run.failures) + 1
    due = now + backoff(failures, policy.backoff_cap, run.issue_id)
    return Settlement(why=outcome.error, retry=_again(outcome, run, "error", due, failures=failures))


def _again(outcome: Outcome, run: Claim, kind: RetryKind, due: float, *, failures: int = 0) -> Retry:
    """What a person asked for is still asked for after a failure or a restart; only a success is the end of it."""
    return Retry(
        kind=kind,
        by_hand=run.by_hand and kind != "continuation",
        attempt=run.attempt + 1,
        due_at=due,
        failures=failures,
        error=outcome.error,
        session_id=outcome.session_id,
    )


def _parked(outcome: Outcome, run: Claim, kind: ParkKind, reason: str) -> Settlement:
    park = Park(kind=kind, reason=reason, fingerprint="", attempt=run.attempt, session_id=outcome.session_id)
    return Settlement(why=reason, park=park)


def backoff(failures: int, cap: float, key: str) -> float:
    """Seconds before try number `failures` + 1: doubling from ten seconds, at most `cap`, up to 20 % less.

    The jitter only shortens, so `cap` is a promise; it spreads out issues that failed together. It is a function of
    the issue, so that a log can be replayed.
    """
    doublings = min(max(failures, 1) - 1, 30)
    nominal = min(FIRST_DELAY * 2.0**doublings, cap)
    digest = hashlib.sha256(f"{key}:{failures}".encode("utf-8", "surrogatepass")).digest()
    fraction = int.from_bytes(digest[:8], "big") / 2.0**64
    return nominal * (1.0 - JITTER * fraction)
