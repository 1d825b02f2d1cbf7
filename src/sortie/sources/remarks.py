"""What keeps issues from being worked on by mistake: states that nobody named, blockers that are never done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from msgspec import Struct

from ..core.model import Blocker
from ..core.policy import Policy
from ..trackers.tracker import Candidates

# Mended one by one: nobody reads more of them, and each costs a walk over all issues.
CIRCLES_NAMED = 10
NAMES_IN_A_CIRCLE = 5


class Remark(Struct, frozen=True):
    """`what` stays the same while only numbers change; `about_issue` is False for what concerns all of them."""

    what: str
    detail: str
    fix: str
    about_issue: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}"


def remarks_on(candidates: Candidates, policy: Policy) -> list[Remark]:
    return [
        *_nothing_active(candidates, policy),
        *_blocked_by_nobody(candidates),
        *_blocked_in_a_circle(candidates, policy),
    ]


def _nothing_active(candidates: Candidates, policy: Policy) -> Iterator[Remark]:
    """Only where issues are in states that the workflow does not name: otherwise all of them are simply done."""
    if not candidates.issues and unnamed_states(candidates, policy):
        yield Remark(
            f"no issue is in an active state ({', '.join(policy.active_states)})",
            f"the tracker has {_counted(candidates.states)}",
            "Correct tracker.active_states, or the states of the issues.",
            about_issue=False,
        )


def unnamed_states(candidates: Candidates, policy: Policy) -> str:
    """Those of which the workflow says nothing, each with the number of its issues."""
    handoff = policy.handoff_state.lower()
    return _counted(
        {
            state: count
            for state, count in candidates.states.items()
            if not policy.is_active(state) and not policy.is_terminal(state) and state.lower() != handoff
        }
    )


def _counted(states: Mapping[str, int]) -> str:
    """`To Do (12), Done (3)`, the most frequent first."""
    by_number = sorted(states.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{state} ({count})" for state, count in by_number)


def _blocked_by_nobody(candidates: Candidates) -> Iterator[Remark]:
    for issue in candidates.issues:
        if missing := [name_of(blocker) for blocker in issue.blocked_by if not blocker.state]:
            yield Remark(
                f"{issue.identifier} does not start",
                f"it is blocked by {', '.join(missing)}",
                "Correct its blocked_by, or add what is missing.",
            )


def _blocked_in_a_circle(candidates: Candidates, policy: Policy) -> Iterator[Remark]:
    """Issues that block themselves or each other: none of them can be the first to start."""
    blocked = {issue.id: issue for issue in candidates.issues if issue.blocked_by}
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
            yield Remark(f"{names[0]} blocks itself", "it does not start", "Correct its blocked_by.")
        else:
            more = len(names) - NAMES_IN_A_CIRCLE
            named = ", ".join(names[:NAMES_IN_A_CIRCLE]) + (f" and {more} more" if more > 0 else "")
            yield Remark(f"{named} block each other", "none of them starts", "Correct their blocked_by.")
        blockers = {issue_id: known - circle for issue_id, known in blockers.items() if issue_id not in circle}


def _circle_in(blockers: Mapping[str, set[str]]) -> set[str]:
    try:
        TopologicalSorter(blockers).prepare()
    except CycleError as error:
        return set(error.args[1])
    return set()


def name_of(blocker: Blocker) -> str:
    """Its identifier; where the tracker tells no state of it, that it has no such issue."""
    name = blocker.identifier or blocker.id
    return name if blocker.state else f"{name} (not in the tracker)"
