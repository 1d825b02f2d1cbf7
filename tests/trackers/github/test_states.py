"""States as labels: what an issue reads as, and that no move shows a third state at any point."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sortie.trackers.github.states import CLOSED, OPEN, Add, Remove, Standing, States, Step, Switch
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


def after(standing: Standing, step: Step) -> Standing:
    """How an issue stands at GitHub when this step is done."""
    if isinstance(step, Switch):
        # GitHub ignores the reason where nothing is opened or closed.
        reason = standing.reason if step.is_closed == standing.is_closed else step.reason
        return Standing(step.is_closed, reason, standing.labels)
    others = tuple(label for label in standing.labels if label.lower() != step.label.lower())
    labels = (*others, step.label) if isinstance(step, Add) else others
    return Standing(standing.is_closed, standing.reason, labels)


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


def test_an_issue_is_labelled_before_it_is_closed_or_opened_and_loses_its_former_label_after_that() -> None:
    assert STATES.steps(Standing(False, "", ("bug", "doing")), "Done") == (
        Add("Done"),
        Switch(True, "completed"),
        Remove("doing"),
    )
    assert STATES.steps(Standing(False, "", ("doing",)), "Wontfix") == (
        Add("Wontfix"),
        Switch(True, "not_planned"),
        Remove("doing"),
    )
    assert STATES.steps(Standing(True, "completed", ("done",)), "Todo") == (
        Add("Todo"),
        Switch(False, "reopened"),
        Remove("done"),
    )


def test_a_label_that_would_count_once_the_issue_is_closed_or_opened_goes_before_that() -> None:
    assert STATES.steps(Standing(False, "", ("todo", "wontfix", "done")), "Done") == (
        Remove("wontfix"),
        Switch(True, "completed"),
        Remove("todo"),
    )
    assert STATES.steps(Standing(True, "", ("todo", "done")), "Doing") == (
        Add("Doing"),
        Remove("todo"),
        Switch(False, "reopened"),
        Remove("done"),
    )


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


def test_of_an_issue_that_stays_closed_the_label_alone_decides() -> None:
    """GitHub keeps the reason for which it was closed."""
    not_planned = Standing(True, "not_planned", ("bug",))
    assert STATES.steps(not_planned, "Done") == (Add("Done"),)
    assert STATES.state_of(after(not_planned, Add("Done"))) == "Done"
    assert after(not_planned, Switch(True, "completed")) == not_planned


@pytest.mark.parametrize("terminal", [("Wontfix", "closed"), ("Wontfix", "Done")])
def test_closed_without_a_label_is_out_of_reach_where_the_reason_says_another_state(
    terminal: tuple[str, ...],
) -> None:
    states = States(settings(terminal_states=terminal))
    for labels in ((), ("wontfix",), ("todo",)):
        not_planned = Standing(True, "not_planned", labels)
        assert states.is_out_of_reach(not_planned, "closed")
        assert states.steps(not_planned, "closed") == ()
    assert not states.is_out_of_reach(Standing(True, "completed", ("wontfix",)), "closed")
    assert not states.is_out_of_reach(Standing(False, "not_planned", ("wontfix",)), "closed")
    assert not states.is_out_of_reach(Standing(True, "not_planned"), "Wontfix")


# -- for every issue, workflow and move ---------------------------------------------------------------------------

NAMES = ("Todo", "Doing", "Next", "Started", "Done", "Wontfix", "Review", "open", "closed")
PEOPLES = ("bug", "help wanted", "ünïcode/label?#%", "todo-later")


def spelled(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(names).flatmap(lambda name: st.sampled_from([name, name.lower(), name.upper()]))


workflows = st.builds(
    settings,
    active_states=st.sampled_from([("Todo", "Doing"), ("Doing", "Next", "Todo"), ("open", "Doing"), ("Todo",)]),
    in_progress_state=st.sampled_from(["", "Doing", "Started"]),
    terminal_states=st.sampled_from(
        [("Done", "Wontfix"), ("Wontfix", "Done"), ("closed",), ("Done", "closed"), ()]
    ),
    failed_states=st.sampled_from([(), ("Wontfix",)]),
    handoff_state=st.sampled_from(["", "Review", "Done", "closed"]),
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
    assume(not states.is_out_of_reach(standing, target))
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
def test_only_an_issue_that_is_closed_for_another_reason_cannot_be_closed_without_a_label(
    workflow: TrackerSettings, standing: Standing, data: st.DataObject
) -> None:
    states = States(workflow)
    target = data.draw(st.sampled_from(states.names))
    if states.is_out_of_reach(standing, target):
        assert target.lower() == CLOSED
        assert standing.is_closed
        assert standing.reason in ("not_planned", "duplicate")
        assert states.steps(standing, target) == ()


@given(workflow=workflows, standing=standings, added=label_lists, data=st.data())
def test_labels_that_people_give_and_take_meanwhile_stay_so(
    workflow: TrackerSettings, standing: Standing, added: tuple[str, ...], data: st.DataObject
) -> None:
    """And one state is left, whichever labels they change at whatever point of the move."""
    states = States(workflow)
    target = data.draw(st.sampled_from(states.names))
    assume(not states.is_out_of_reach(standing, target))
    steps = states.steps(standing, target)
    cut = data.draw(st.integers(0, len(steps)))
    of_states = {label.lower() for label in states.labels}
    expected = tuple(label for label in added if label.lower() not in of_states)
    now = standing
    for step in steps[:cut]:
        now = after(now, step)
    now = Standing(now.is_closed, now.reason, (*(one for one in now.labels if one.lower() in of_states), *expected))
    for step in steps[cut:]:
        now = after(now, step)
    assert tuple(label for label in now.labels if label.lower() not in of_states) == expected
    left = {label.lower() for label in now.labels} & of_states
    assert left <= {target.lower()} or (not steps and states.state_of(standing) == states.state_of(now))


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
        if data.draw(st.booleans()):
            now = after(now, step)  # its answer was lost, and it is made again
    for step in states.steps(now, target):
        now = after(now, step)
    assert states.state_of(now) == states.state_of(complete)
    assert {label.lower() for label in now.labels} == {label.lower() for label in complete.labels}


def test_every_issue_that_reads_as_active_is_found_by_a_label_of_an_active_state() -> None:
    for label in STATES.active_labels:
        assert STATES.is_active(STATES.state_of(Standing(False, "", (label,))))
    assert STATES.state_of(Standing(False, "", ())) == OPEN
