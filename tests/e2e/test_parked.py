"""Parked issues: aside through polls and restarts until a person does something, then at work again."""

from __future__ import annotations

import pytest

from sortie.core import events as ev

from .processes import wait_for
from .project import Project
from .shell import BLOCKED, says

ASKS = f"{says('run $SORTIE_ATTEMPT')}; {BLOCKED}; echo 'reason: which database?' >> .sortie/status"
SETTINGS = {
    "budget": {"per_issue": {"sessions": 20}},
    "tracker": {"comments": {"on_dispatch": True, "on_completion": True}},
}


@pytest.fixture
def parked(project: Project) -> Project:
    project.workflow(SETTINGS)
    project.add("1", ASKS)
    project.run()
    assert project.parked()["1"] == ("signal", "which database?")
    return project


def comment(body: str) -> dict[str, str]:
    return {"id": "c-person", "author": "ada", "body": body, "created_at": "2026-01-01T00:00:00Z"}


def test_a_parked_issue_stays_parked_through_polls_and_restarts(parked):
    """A2O-09: neither time nor a new service, nor our own comments, start it again."""
    for _ in range(2):
        assert parked.run() == 3
    service = parked.start()
    parked.add("2", says("another issue"))
    service.until(lambda: parked.runs("2"))
    service.stop()
    assert [line for line in parked.diary() if line.startswith("run")] == ["run 1"]
    assert len(parked.issue("1")["comments"]) == 2
    assert parked.only_run("1").reason == "which database?"


def test_a_parked_issue_stays_parked_after_kill(parked):
    """A2O-09: nothing is kept in memory only."""
    service = parked.start()
    service.until(lambda: len(parked.events(ev.Opened)) == 2)
    service.kill()
    parked.run()
    assert parked.diary() == ["run 1"]


@pytest.mark.parametrize(
    "change",
    [
        {"title": "A better title"},
        {"description": "use the second one"},
        {"state": "In Progress"},
        {"labels": ["answered"]},
        {"assignee": "ada"},
        {"comments": [comment("the second one")]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_a_person_changes_frees_it(parked, change):
    """A2O-09: state, title, description, labels, assignee or a comment; it runs once more and is parked again."""
    before = parked.issue("1")["comments"]
    if "comments" in change:
        change = {"comments": [*before, *change["comments"]]}
    parked.edit("1", **change)
    parked.run()
    assert parked.diary() == ["run 1", "run 2"]
    assert parked.parked()["1"][0] == "signal"


@pytest.mark.parametrize("change", [{"priority": 1}, {"updated_at": "2030-01-01T00:00:00Z"}])
def test_what_trackers_change_by_themselves_does_not_free_it(parked, change):
    """A2O-09: a new time stamp or rank is not information."""
    parked.edit("1", **change)
    parked.run()
    assert parked.diary() == ["run 1"]


def test_a_change_while_the_service_runs_is_noticed_at_once(parked):
    """A2O-09: no restart is needed."""
    service = parked.start()
    service.until(lambda: len(parked.events(ev.Opened)) == 2)
    parked.edit("1", description="the second one")
    service.until(lambda: len(parked.runs("1")) == 2)
    assert service.stop() == 0
    assert parked.runs("1")[-1].attempt == 2


def test_leaving_the_active_states_and_coming_back_frees_it(parked):
    """A2O-09: a person who moves it away and back has changed it."""
    service = parked.start()
    parked.edit("1", state="Waiting")
    service.until(lambda: not parked.parked())
    parked.edit("1", state="To Do")
    service.until(lambda: len(parked.runs("1")) == 2)
    service.stop()


def test_an_operator_frees_it_by_hand(parked):
    """A2O-09: `sortie unpark`, with and without a running service."""
    assert parked.sortie("unpark", "T-1").returncode == 0
    assert parked.parked() == {}
    parked.run()
    assert len(parked.runs("1")) == 2
    service = parked.start()
    service.until(lambda: len(parked.events(ev.Opened)) == 3)
    answer = parked.sortie("unpark", "T-1")
    assert (answer.returncode, answer.stdout) == (0, "T-1 is free to start again.\n")
    service.until(lambda: len(parked.runs("1")) == 3)
    service.stop()


def test_the_reason_is_wherever_a_person_looks(parked):
    """A2O-09 A2O-04: why, status, history and the comment in the tracker tell it."""
    for command in (["why", "T-1"], ["status"], ["status", "--json"], ["history", "T-1"], ["history", "--json"]):
        assert "which database?" in parked.sortie(*command).stdout, command
    assert "> which database?" in parked.issue("1")["comments"][-1]["body"]


def test_an_agent_that_goes_on_after_an_answer_is_told_its_session(parked):
    """A2O-09: the run after the answer resumes the session that asked."""
    first = parked.only_run("1").session_id
    parked.edit("1", description="the second one")
    parked.run()
    assert parked.runs("1")[-1].session_id == first
    wait_for(lambda: not parked.living())


def test_an_issue_without_a_prompt_is_parked_at_once_and_never_tried_again(project):
    """A template that fails for one issue fails the same way on every try; other issues do not suffer."""
    project.workflow({"budget": {"per_issue": {"sessions": 20}}}, prompt="Part of {{ issue.parent.identifier }}")
    project.add("1", says("agent of 1"))
    project.add("2", f"{says('agent of 2')}; {BLOCKED}", parent={"id": "9", "identifier": "T-9"})
    assert project.run() == 3
    assert project.diary() == ["agent of 2"]
    run = project.only_run("1")
    assert (run.status, run.turns) == ("failed", 0)
    kind, reason = project.parked()["1"]
    assert kind == "error"
    assert "WORKFLOW.md:" in reason and "the prompt cannot be rendered: 'None' has no attribute" in reason
    (ended,) = project.events(ev.RunEnded, "1")
    assert ended.error_kind == "prompt_error"


def test_an_issue_without_a_prompt_is_not_moved_and_costs_no_turn(project):
    """No agent has worked on it."""
    project.workflow(
        {"tracker": {"in_progress_state": "In Progress"}},
        prompt="{% if issue.assignee == 'eve' %}{{ issue.parent.id }}{% endif %}Work.",
    )
    project.add("1", assignee="eve")
    project.run()
    assert project.parked()["1"][0] == "error"
    assert project.state("1") == "To Do"
    assert project.schedule().spent["1"].turns == 0
