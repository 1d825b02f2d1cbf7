"""Mistakes that would look like nothing to do: the service names them, once each, and does the rest."""

from __future__ import annotations

from sortie.core import events as ev

from .shell import BLOCKED, says


def test_when_no_state_is_active_the_states_that_there_are_are_named(project):
    """Before any work was seen; not again while only numbers change, nor when everything is done."""
    project.workflow({"tracker": {"active_states": ["Todo"], "handoff_state": "In Review"}})
    for number in range(3):
        project.add(str(number), BLOCKED)
    project.edit("2", state="Done")
    service = project.start()
    service.until(lambda: project.notes())
    found = "no issue is in an active state (Todo): the tracker has To Do (2), Done (1)"
    assert project.notes() == found
    project.edit("1", state="Done")
    project.add("4", f"{says('work')}; {BLOCKED}", state="Todo")
    service.until(lambda: project.parked())
    project.edit("4", state="Done")
    service.until(lambda: not project.parked())
    service.stop()
    assert project.notes() == found
    assert found in project.output()


def test_nothing_is_said_where_every_issue_is_done_or_handed_over(project):
    project.workflow({"tracker": {"handoff_state": "In Review"}})
    project.add("1", state="Done")
    project.add("2", state="in review")
    assert project.run() == 0
    assert project.notes() == ""


def test_a_blocker_that_is_nobody_is_said_and_shows_in_why(project):
    project.add("1", says("one"), blocked_by=["T-99"])
    project.add("2", f"{says('two')}; {BLOCKED}")
    service = project.start()
    service.until(lambda: project.parked() and "1" in project.schedule().skips)
    said = "T-1 does not start: it is blocked by T-99 (not in the tracker)"
    assert project.notes() == said
    assert "it waits for others: T-99 (not in the tracker)" in project.sortie("why", "T-1").stdout
    assert "T-99 (not in the tracker)" in project.sortie("run", "--dry-run").stdout
    project.edit("1", blocked_by=[])
    service.until(lambda: project.events(ev.RunEnded, "1"))
    service.stop()
    assert project.notes() == said


def test_every_record_that_cannot_be_used_is_said_in_plain_words(project):
    project.add("1", f"{says('work')}; {BLOCKED}")
    project.add("2", title=7)
    project.add("3", labels="ui")
    assert project.run() == 3
    assert project.diary() == ["work"]
    first, second = project.notes().splitlines()
    assert first.endswith("record 2 (T-2) cannot be used: `title` must be text in quotes, not 7.")
    assert "record 3 (T-3) cannot be used: `labels` must be a list of texts" in second


def test_a_misspelt_variable_is_said_at_the_start(project):
    assert project.run(SORTIE_AGENT_MAX_TURN="2") == 0
    assert 'did you mean \\"SORTIE_AGENT_MAX_TURNS\\"?' in project.output()
