"""What keeps issues from being worked on by mistake: states that nobody named, blockers that do not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ..core.model import Blocker
from ..core.policy import Policy
from ..trackers.port import Candidates


class Remark(Struct, frozen=True):
    """`what` stays the same while only numbers change; `about_issue` is False for what concerns all of them."""

    what: str
    detail: str
    fix: str
    about_issue: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}"


def remarks_on(candidates: Candidates, policy: Policy) -> list[Remark]:
    return [*_nothing_active(candidates, policy), *_blocked_by_nobody(candidates)]


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


def name_of(blocker: Blocker) -> str:
    """Its identifier; where the tracker tells no state of it, that it has no such issue."""
    name = blocker.identifier or blocker.id
    return name if blocker.state else f"{name} (not in the tracker)"
