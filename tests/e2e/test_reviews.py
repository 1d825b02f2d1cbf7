"""What was handed over to a person is followed until that person moves it on."""

from __future__ import annotations

from sortie.core import events as ev

from .project import Project
from .shell import REVIEW

HANDS_OVER = {"tracker": {"handoff_state": "Review"}, "polling": {"interval_ms": 60_000}}


def states(project: Project) -> dict[str, str]:
    return {issue_id: view.state for issue_id, view in project.schedule().issues.items()}


def test_what_a_person_accepts_waits_for_nobody_and_its_workspace_goes(project: Project) -> None:
    """No poll is due for a minute: the file that changed is enough."""
    project.workflow(HANDS_OVER)
    for issue_id in ("1", "2"):
        project.add(issue_id, f"echo work > result; {REVIEW}")
    service = project.start()
    service.until(lambda: states(project) == {"1": "Review", "2": "Review"})
    project.edit("1", state="Done")
    service.until(lambda: [event.issue_id for event in project.events(ev.WorkspaceGone)] == ["1"])
    assert states(project) == {"1": "Done", "2": "Review"}
    assert service.stop() == 0
    assert not project.workspace("1").exists()
    assert project.workspace("2").exists()


def test_one_that_is_accepted_while_nobody_looks_is_noticed_by_the_next_service(project: Project) -> None:
    project.workflow(HANDS_OVER)
    project.add("1", REVIEW)
    assert project.run() == 0
    assert project.schedule().issues["1"].state == "Review"
    project.edit("1", state="Done")
    assert project.run() == 0
    assert project.run() == 0
    assert project.schedule().issues == {}
    assert len(project.runs("1")) == 1
