"""What is remarked of a look at the tracker, and that a tracker which counts nothing is fine."""

from __future__ import annotations

import pytest

from sortie.core.model import Blocker, Issue
from sortie.core.policy import Policy
from sortie.engine.remarks import remarks_on, unnamed_states
from sortie.trackers.port import Candidates

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
    assert [remark.detail for remark in remarks_on(found, POLICY)] == ([said] if said else [])


def test_without_active_states_no_state_is_unknown():
    found = Candidates((), (), {"Anything": 2, "Done": 3})
    assert unnamed_states(found, Policy(active_states=(), terminal_states=("Done",))) == ""


def test_a_blocker_without_a_state_is_nobody():
    blocked = Issue(
        id="2",
        identifier="A-2",
        title="x",
        state="Todo",
        blocked_by=(Blocker("9", "A-9"), Blocker("8", ""), Blocker("1", "A-1", "Todo")),
    )
    (remark,) = remarks_on(Candidates((ISSUE, blocked)), POLICY)
    assert str(remark) == "A-2 does not start: it is blocked by A-9 (not in the tracker), 8 (not in the tracker)"
