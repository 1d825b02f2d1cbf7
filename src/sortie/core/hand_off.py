"""Issues of a tracker: which run hands one over to people, and what becomes of one whose run succeeded."""

from __future__ import annotations

from .conclude import Next, Outcome
from .policy import Policy

# How the word on an issue begins that was handed to people.
HANDED_OVER = "handed over to"


def wants_handoff(outcome: Outcome, policy: Policy, state: str, *, by_hand: bool = False) -> bool:
    """Whether the end of this run is to move the issue to the hand-off state."""
    return (
        bool(policy.handoff_state)
        and not outcome.stop
        and outcome.status == "succeeded"
        and outcome.soft_stop != "blocked"
        and is_workable(policy, state, by_hand=by_hand)
    )


def is_workable(policy: Policy, state: str, *, by_hand: bool) -> bool:
    """Whether an issue in this state is worked on: an active one, or any that a person asked for and that is not
    over."""
    return policy.is_active(state) or (by_hand and not policy.is_terminal(state))


def judge_issue(
    outcome: Outcome, policy: Policy, state: str, handed: bool | None, *, by_hand: bool = False
) -> Next:
    """What becomes of an issue whose run succeeded. `handed` is None where no hand-off was due, else whether it
    worked; `state` is the issue's own after it."""
    if handed:
        return Next(then="released", why=f"{HANDED_OVER} {policy.handoff_state}")
    if outcome.soft_stop == "blocked" or (outcome.soft_stop and (by_hand or policy.is_active(state))):
        said = outcome.reason or outcome.soft_stop
        refused = f"the hand-off to {policy.handoff_state} failed; the agent said: {said}"
        return Next(then="parked", why=said if handed is None else refused)
    if not policy.is_active(state):
        return Next(then="released", why=f"the issue is in {state or 'no known state'}, which is not active")
    why = "the agent goes on" if handed is None else f"the hand-off to {policy.handoff_state} failed"
    return Next(then="again", why=why)
