"""States as labels: what an issue reads as, and that no move shows a third state at any point."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.trackers.github.states import CLOSED, OPEN, Add, Remove, Rewrite, Standing, States, after
from sortie.trackers.tracker import TrackerSettings


def settings(**fields: Any) -> TrackerSettings:
    usual: dict[str, Any] = {
        "kind": "github",
        "active_states": ("Todo", "Doing"),
        "in_progress_state": "Doing",
        "terminal_states": ("Done", "Wontfix"),
        "failed_states": ("Wontfix",),
        "handoff_state": "Review",
    }
    return TrackerSettings(**(usual | fields))


STATES = States(settings())


@pytest.mark.parametrize(
    ("is_closed", "reason", "labels", "state"),
    [
        (False, "", (), "open"),
        (False, "", ("bug", "help wanted"), "open"),
        (False, "", ("TODO",), "Todo"),
        (False, "", ("doing", "todo"), "Todo"),
        (False, "", ("doing",), "Doing"),
        (False, "", ("doing", "review", "done"), "Doing"),
        (False, "", ("review", "done"), "Done"),
        (False, "", ("review",), "Review"),
        (True, "completed", ("todo",), "Done"),
        (True, "completed", (), "Done"),
        (True, "", (), "Done"),
        (True, "not_planned", (), "Wontfix"),
        (True, "duplicate", ("todo",), "Wontfix"),
        (True, "not_planned", ("done",), "Done"),
        (True, "completed", ("wontfix",), "Wontfix"),
        (True, "completed", ("wontfix", "done"), "Done"),
    ],
)
def test_an_issue_reads_as_its_label_says_and_a_closed_one_is_over(
    is_closed: bool, reason: str, labels: tuple[str, ...], state: str
) -> None:
    assert STATES.state_of(Standing(is_closed, reason, labels)) == state


def test_an_open_issue_without_a_state_is_active_only_where_the_workflow_says_open() -> None:
    bare = Standing(False, "", ("bug",))
    assert not STATES.is_active(STATES.state_of(bare))
    also_open = States(settings(active_states=("Open", "Todo")))
    assert also_open.state_of(bare) == "Open"
    assert also_open.is_active("Open")
    assert also_open.active_labels == ()  # they are found only among all open issues


@pytest.mark.parametrize(
    ("terminal", "failed", "reason", "state"),
    [
        ((), (), "completed", "closed"),
        (("Wontfix",), ("Wontfix",), "completed", "closed"),
        (("Wontfix",), ("Wontfix",), "not_planned", "Wontfix"),
        (("Done", "Closed"), (), "completed", "Closed"),
        (("Done",), (), "not_planned", "Done"),
    ],
)
def test_a_closed_issue_without_a_label_is_in_the_usual_terminal_state(
    terminal: tuple[str, ...], failed: tuple[str, ...], reason: str, state: str
) -> None:
    states = States(settings(terminal_states=terminal, failed_states=failed))
    assert states.state_of(Standing(True, reason)) == state
    assert not states.is_active(state)


def test_closing_and_opening_is_one_step_and_says_why() -> None:
    assert STATES.steps(Standing(False, "", ("bug", "doing")), "Done") == (
        Rewrite(True, "completed", ("bug", "Done")),
    )
    assert STATES.steps(Standing(False, "", ("doing",)), "Wontfix") == (Rewrite(True, "not_planned", ("Wontfix",)),)
    assert STATES.steps(Standing(True, "completed", ("done",)), "Todo") == (Rewrite(False, "reopened", ("Todo",)),)


def test_a_label_is_added_before_others_go() -> None:
    steps = STATES.steps(Standing(False, "", ("todo", "Review", "bug")), "Doing")
    assert steps == (Add("Doing"), Remove("Review"), Remove("todo"))


@pytest.mark.parametrize(
    ("standing", "state"),
    [
        (Standing(False, "", ("bug", "TODO")), "Todo"),
        (Standing(False, "", ()), "open"),
        (Standing(True, "completed", ()), "Done"),
        (Standing(True, "not_planned", ("bug",)), "Wontfix"),
        (Standing(True, "completed", ("done",)), "Done"),
    ],
)
def test_an_issue_that_is_there_is_left_alone(standing: Standing, state: str) -> None:
    assert STATES.steps(standing, state) == ()


# -- for every issue, workflow and move ---------------------------------------------------------------------------

NAMES = ("Todo", "Doing", "Next", "Done", "Wontfix", "Review", "open", "closed")
PEOPLES = ("bug", "help wanted", "ünïcode/label?#%", "todo-later")


def spelled(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(names).flatmap(lambda name: st.sampled_from([name, name.lower(), name.upper()]))


workflows = st.builds(
    settings,
    active_states=st.sampled_from([("Todo", "Doing"), ("Doing", "Next", "Todo"), ("open", "Doing"), ("Todo",)]),
    in_progress_state=st.sampled_from(["", "Doing"]),
    terminal_states=st.sampled_from(
        [("Done", "Wontfix"), ("Wontfix", "Done"), ("closed",), ("Done", "closed"), ()]
    ),
    failed_states=st.sampled_from([(), ("Wontfix",)]),
    handoff_state=st.sampled_from(["", "Review"]),
)
label_lists = st.lists(
    spelled(NAMES[:-2]) | st.sampled_from(PEOPLES), max_size=6, unique_by=lambda label: label.lower()
).map(tuple)
reasons = st.sampled_from(["", "completed", "not_planned", "duplicate", "reopened"])
standings = st.builds(Standing, st.booleans(), reasons, label_lists)


@given(workflow=workflows, standing=standings, data=st.data())
def test_a_move_reaches_its_state_and_shows_no_third_one_on_the_way(
    workflow: TrackerSettings, standing: Standing, data: st.DataObject
) -> None:
    states = States(workflow)
    target = data.draw(st.sampled_from(states.names))
    before = states.state_of(standing)
    seen, now = [], standing
    for step in states.steps(standing, target):
        now = after(now, step)
        seen.append(states.state_of(now))
    reached = states.state_of(now)
    if target.lower() != CLOSED or CLOSED in [state.lower() for state in workflow.terminal_states]:
        assert reached == target
    assert now.is_closed == (states.is_terminal(target))
    assert set(seen) <= {before, reached}
    assert states.steps(now, target) == ()


@given(workflow=workflows, standing=standings, data=st.data())
def test_labels_of_people_stay_and_one_state_is_left(
    workflow: TrackerSettings, standing: Standing, data: st.DataObject
) -> None:
    states = States(workflow)
    target = data.draw(st.sampled_from(states.names))
    now = standing
    for step in states.steps(standing, target):
        now = after(now, step)
    of_states = {label.lower() for label in states.labels}
    kept = [label for label in standing.labels if label.lower() not in of_states]
    assert [label for label in now.labels if label.lower() not in of_states] == kept
    assert {label.lower() for label in now.labels} & of_states <= {target.lower()}


@given(workflow=workflows, standing=standings, data=st.data())
def test_a_move_that_was_cut_short_anywhere_is_completed_by_beginning_again(
    workflow: TrackerSettings, standing: Standing, data: st.DataObject
) -> None:
    states = States(workflow)
    target = data.draw(st.sampled_from(states.names))
    steps = states.steps(standing, target)
    complete = standing
    for step in steps:
        complete = after(complete, step)
    now = standing
    for step in steps[: data.draw(st.integers(0, len(steps)))]:
        now = after(now, step)
    for step in states.steps(now, target):
        now = after(now, step)
    assert states.state_of(now) == states.state_of(complete)
    assert {label.lower() for label in now.labels} == {label.lower() for label in complete.labels}


def test_every_issue_that_reads_as_active_is_found_by_a_label_of_an_active_state() -> None:
    for label in STATES.active_labels:
        assert STATES.is_active(STATES.state_of(Standing(False, "", (label,))))
    assert STATES.state_of(Standing(False, "", ())) == OPEN
