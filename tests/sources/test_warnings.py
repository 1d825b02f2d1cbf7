"""What is warned of after a look at the tracker, and that a tracker which counts nothing is fine."""

from __future__ import annotations

import pytest

from sortie.core.model import Blocker, Issue
from sortie.core.policy import Policy
from sortie.sources.warnings import CIRCLES_NAMED, look_at, unnamed_states, warnings_about
from sortie.trackers.tracker import Candidates

POLICY = Policy(active_states=("Todo",), terminal_states=("Done",), handoff_state="In Review")
ISSUE = Issue(id="1", identifier="A-1", title="x", state="Todo")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Candidates((), (), {"To Do": 2, "Done": 3}), "the tracker has Done (3), To Do (2)"),
        (Candidates((), (), {"done": 3, "in review": 1}), ""),
        (Candidates((), (), {}), ""),
        (Candidates(()), ""),
        (Candidates((ISSUE,), (), {"Todo": 1, "To Do": 2}), ""),
    ],
)
def test_states_are_named_where_nothing_is_active_and_something_is_unknown(found, said):
    assert [warning.detail for warning in warnings_about(look_at(found), POLICY)] == ([said] if said else [])


def test_without_active_states_no_state_is_unknown():
    found = Candidates((), (), {"Anything": 2, "Done": 3})
    assert unnamed_states(look_at(found), Policy(active_states=(), terminal_states=("Done",))) == ""


def test_where_only_some_issues_were_counted_there_are_more():
    look = look_at(Candidates((), states={"open": 100}, counts_some=True))
    policy = Policy(active_states=("todo",))
    assert unnamed_states(look, policy) == "open (100 or more)"
    (warning,) = warnings_about(look, policy)
    assert warning.detail == "the tracker has open (100 or more)"


def test_a_blocker_without_a_state_is_nobody():
    blocked = Issue(
        id="2",
        identifier="A-2",
        title="x",
        state="Todo",
        blocked_by=(Blocker("9", "A-9"), Blocker("8", ""), Blocker("1", "A-1", "Todo")),
    )
    (warning,) = warnings_about(look_at(Candidates((ISSUE, blocked))), POLICY)
    assert str(warning) == "A-2 does not start: it is blocked by A-9 (not in the tracker), 8 (not in the tracker)"


def waiting(name, *blockers):
    return Issue(
        id=f"id-{name}",
        identifier=name,
        title="x",
        state="Todo",
        blocked_by=tuple(Blocker(blocker, blocker, "Todo") for blocker in blockers),
    )


@pytest.mark.parametrize(
    ("issues", "said"),
    [
        ([waiting("A", "A")], ["A blocks itself: it does not start"]),
        ([waiting("A", "id-A")], ["A blocks itself: it does not start"]),
        (
            [waiting("A", "B"), waiting("B", "C"), waiting("C", "A")],
            ["A, B, C block each other: none of them starts"],
        ),
        ([waiting("A", "B"), waiting("B", "A"), waiting("C", "C"), waiting("D", "A")], ["A, B block", "C blocks"]),
        ([waiting("A", "B"), waiting("B", "C"), waiting("C")], []),
        (
            [waiting(f"I-{n}", f"I-{(n + 1) % 7}") for n in range(7)],
            ["I-0, I-1, I-2, I-3, I-4 and 2 more block each"],
        ),
        ([waiting(f"I-{n}", f"I-{n}") for n in range(30)], ["I-"] * CIRCLES_NAMED),
    ],
)
def test_issues_that_wait_for_each_other_are_named(issues, said):
    found = sorted(str(warning) for warning in warnings_about(look_at(Candidates(tuple(issues))), POLICY))
    assert len(found) == len(said)
    assert all(warning.startswith(words) for warning, words in zip(found, said, strict=True)), found


def test_a_circle_is_broken_by_what_is_done():
    done = Issue(id="1", identifier="A", title="x", state="Todo", blocked_by=(Blocker("1", "A", "Done"),))
    assert warnings_about(look_at(Candidates((done,))), POLICY) == []
