"""What keeps issues from being worked on by mistake: states that nobody named, blockers that are never done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from msgspec import Struct

from ..core.observe import Look, blocker_name
from ..core.policy import Policy
from ..trackers.tracker import Candidates

# Repaired one by one: nobody reads more of them, and each costs a walk over all issues.
CIRCLES_NAMED = 10
NAMES_IN_A_CIRCLE = 5


class Warning(Struct, frozen=True):
    """Something that keeps items from being worked on by mistake. `what` stays the same while only numbers change;
    `about_issue` is False for what concerns all of them."""

    what: str
    detail: str
    fix: str
    about_issue: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}"


def warnings_about(look: Look, policy: Policy) -> list[Warning]:
    return [
        *_nothing_active(look, policy),
        *_blocked_by_nobody(look, policy),
        *_blocked_in_a_circle(look, policy),
    ]


def look_at(candidates: Candidates) -> Look:
    """What a tracker answers, as a look that holds nothing else."""
    return Look(
        issues={issue.id: issue for issue in candidates.issues},
        problems=candidates.problems,
        counts=candidates.states,
        counts_some=candidates.counts_some,
    )


def _nothing_active(look: Look, policy: Policy) -> Iterator[Warning]:
    """Only where issues are in states that the workflow does not name: otherwise all of them are simply done."""
    if not look.issues and unnamed_states(look, policy):
        yield Warning(
            f"no issue is in an active state ({', '.join(policy.active_states)})",
            f"the tracker has {_counted(look.counts, look)}",
            "Correct tracker.active_states, or the states of the issues.",
            about_issue=False,
        )


def unnamed_states(look: Look, policy: Policy) -> str:
    """Those of which the workflow says nothing, each with the number of its issues."""
    handoff = policy.handoff_state.lower()
    return _counted(
        {
            state: count
            for state, count in look.counts.items()
            if not policy.is_active(state) and not policy.is_terminal(state) and state.lower() != handoff
        },
        look,
    )


def _counted(states: Mapping[str, int], look: Look) -> str:
    """`To Do (12), Done (3)`, the most frequent first."""
    more = " or more" if look.counts_some else ""
    by_number = sorted(states.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{state} ({count}{more})" for state, count in by_number)


def _blocked_by_nobody(look: Look, policy: Policy) -> Iterator[Warning]:
    for issue in look.issues.values():
        if missing := [blocker_name(blocker, policy) for blocker in issue.blocked_by if not blocker.state]:
            yield Warning(
                f"{issue.identifier} does not start",
                f"it is blocked by {', '.join(missing)}",
                "Correct its blocked_by, or add what is missing.",
            )


def _blocked_in_a_circle(look: Look, policy: Policy) -> Iterator[Warning]:
    """Issues that block themselves or each other: none of them can be the first to start."""
    blocked = {issue.id: issue for issue in look.issues.values() if issue.blocked_by}
    ids = {name: issue.id for issue in blocked.values() for name in (issue.identifier, issue.id)}
    blockers = {
        issue.id: {
            ids[name]
            for blocker in issue.blocked_by
            if not policy.is_terminal(blocker.state)
            for name in (blocker.id, blocker.identifier)
            if name in ids
        }
        for issue in blocked.values()
    }
    for _ in range(CIRCLES_NAMED):
        circle = _circle_in(blockers)
        if not circle:
            return
        names = sorted(blocked[issue_id].identifier for issue_id in circle)
        if len(names) == 1:
            yield Warning(f"{names[0]} blocks itself", "it does not start", "Correct its blocked_by.")
        else:
            more = len(names) - NAMES_IN_A_CIRCLE
            named = ", ".join(names[:NAMES_IN_A_CIRCLE]) + (f" and {more} more" if more > 0 else "")
            yield Warning(f"{named} block each other", "none of them starts", "Correct their blocked_by.")
        blockers = {issue_id: known - circle for issue_id, known in blockers.items() if issue_id not in circle}


def _circle_in(blockers: Mapping[str, set[str]]) -> set[str]:
    try:
        TopologicalSorter(blockers).prepare()
    except CycleError as error:
        return set(error.args[1])
    return set()
