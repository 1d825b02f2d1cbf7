from __future__ import annotations

import pytest

from .sample import load_text, problems_of

ACTIVE = "active_states: [To Do, Doing]"
TERMINAL = "terminal_states: [Done]"


def settings(*lines):
    return "tracker:\n  kind: file\n" + "".join(f"  {line}\n" for line in lines) + "agent: {kind: mock}\n"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "2: tracker.active_states: is missing; list the states in which an issue is to be worked on"),
        (
            [ACTIVE, "terminal_states: [DOING]"],
            '5: tracker.terminal_states: "DOING" is also in tracker.active_states',
        ),
        (
            [ACTIVE, TERMINAL, "failed_states: [Lost]"],
            '6: tracker.failed_states: "Lost" must be one of tracker.term',
        ),
        ([ACTIVE, "handoff_state: doing"], '5: tracker.handoff_state: "doing" is also in tracker.active_states'),
        ([TERMINAL, ACTIVE, "handoff_state: done"], '6: tracker.handoff_state: "done" is also in tracker.terminal'),
        ([TERMINAL, "handoff_state: Review"], "5: tracker.handoff_state: needs tracker.active_states"),
        ([ACTIVE, 'handoff_state: ""'], '5: tracker.handoff_state: must be text that says something, not ""'),
        ([ACTIVE, "in_progress_state: Busy"], '5: tracker.in_progress_state: "Busy" must be one of tracker.active'),
        ([TERMINAL, "in_progress_state: DONE"], '5: tracker.in_progress_state: "DONE" is also in tracker.terminal'),
        ([ACTIVE, "comments: {on_dispatch: 1}"], "5: tracker.comments.on_dispatch: must be true or false, not 1"),
        ([ACTIVE, "comments: true"], "5: tracker.comments: must be a map, not true"),
        (["active_states: To Do"], "4: tracker.active_states: must be a list of texts, not"),
        (["active_states: ['']"], "4: tracker.active_states: must not contain an empty text"),
    ],
)
def test_states_that_contradict_each_other_are_refused(tmp_path, lines, problem):
    (found,) = problems_of(tmp_path, settings(*lines))
    assert found.startswith(f"WORKFLOW.md:{problem}")


def test_the_states_in_progress_and_handed_off_must_differ(tmp_path):
    found = problems_of(tmp_path, settings(ACTIVE, "handoff_state: doing", "in_progress_state: Doing"))
    assert found == [
        'WORKFLOW.md:5: tracker.handoff_state: "doing" is also in tracker.active_states',
        "WORKFLOW.md:6: tracker.in_progress_state: must differ from tracker.handoff_state",
    ]


def test_a_missing_tracker_kind_is_refused(tmp_path):
    assert problems_of(tmp_path, "tracker: {active_states: [a]}\nagent: {kind: mock}\n") == [
        'WORKFLOW.md:2: tracker.kind: is missing; name the tracker, such as "file"'
    ]


def test_one_mistake_is_not_reported_as_several(tmp_path):
    assert len(problems_of(tmp_path, "tracker: nonsense\nagent: {kind: mock}\n")) == 1


def test_either_list_of_states_is_enough(tmp_path):
    assert load_text(tmp_path, settings(ACTIVE)).config.tracker.terminal_states == ()
    assert load_text(tmp_path, settings(TERMINAL, "in_progress_state: x")).config.tracker.active_states == ()


def test_slots_for_a_state_that_is_not_active_are_a_warning(tmp_path):
    text = settings(ACTIVE).replace(
        "kind: mock", "kind: mock, max_concurrent_agents_by_state: {to doo: 1, doing: 2}"
    )
    (warning,) = load_text(tmp_path, text).warnings
    assert (
        'by_state.to doo: is not one of tracker.active_states, so it has no effect; did you mean "To Do"?'
        in warning
    )


def test_slots_for_the_same_state_in_two_spellings_are_refused(tmp_path):
    text = settings(ACTIVE).replace(
        "kind: mock", "kind: mock, max_concurrent_agents_by_state: {doing: 1, Doing: 2}"
    )
    assert "Doing: is given twice" in problems_of(tmp_path, text)[0]
