"""A store that has issues of one repository, and a workflow that names another: numbers mean other issues there."""

from __future__ import annotations

from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import OWNER, REPOSITORY
from tests.servers.github_scene import GitHubScene
from tests.servers.github_scene import github as github

from .github_project import opened, workflow
from .project import Project
from .shell import BLOCKED, REVIEW

pytestmark = TIME_TO_INSTALL

OTHER = f"{OWNER}/other"
TITLE = "Paint it"
WRONG_CONFIGURATION, LEFT_TO_A_PERSON = 2, 3


def test_a_store_of_another_repository_is_not_gone_on_with(project: Project, scene: GitHubScene) -> None:
    """What is parked stays so, no workspace goes, and nobody is asked anything."""
    scene.emulate.call("POST", f"/repos/{OTHER}/issues", {"title": "Old", "labels": ["done"]})
    scene.emulate.call("PATCH", f"/repos/{OTHER}/issues/1", {"state": "closed"})
    workflow(project, scene)
    issue = opened(project, scene, BLOCKED)
    assert project.run() == LEFT_TO_A_PERSON
    workspaces = sorted(project.workspaces.glob("[!.]*"))
    scene.server.forget()
    workflow(project, scene, tracker={"project": OTHER})
    assert project.run() == WRONG_CONFIGURATION
    assert project.sortie("run", project.workflow_path.name, "--dry-run").returncode == WRONG_CONFIGURATION
    assert f"{REPOSITORY}#{issue}" in project.output()
    assert "db_path" in project.output()
    assert scene.server.asked() == []
    assert sorted(project.workspaces.glob("[!.]*")) == workspaces != []
    workflow(project, scene)
    assert project.run() == LEFT_TO_A_PERSON
    assert project.parked()[issue][0] == "signal"
    assert len(project.runs(issue)) == 1


def test_a_repository_that_was_renamed_keeps_its_issues(project: Project, scene: GitHubScene) -> None:
    """It is played by another one with the same issue, as our own writes left it."""
    trusts = {"trusted_authors": [OWNER]}
    scene.emulate.call("POST", f"/repos/{OTHER}/issues", {"title": TITLE, "labels": ["todo"]})
    (project.root / "agents" / "1.sh").write_text(BLOCKED)
    workflow(project, scene, tracker={"project": OTHER, **trusts})
    assert project.run() == LEFT_TO_A_PERSON
    issue = opened(project, scene, REVIEW, "in-progress")
    workflow(project, scene, tracker=trusts)
    assert project.run() == WRONG_CONFIGURATION
    workflow(project, scene, tracker=trusts, github={"renamed_from": OTHER.upper()})
    assert project.run() == LEFT_TO_A_PERSON
    assert len(project.runs(issue)) == 1, "what is parked stays so"
    assert project.sortie("unpark", issue).returncode == 0
    assert project.run() == 0
    assert scene.labels(int(issue)) == ["review"]


def test_nor_is_one_of_another_tracker(project: Project, scene: GitHubScene) -> None:
    """Such as one that was tried out with a file beside the workflow."""
    project.add("1", BLOCKED)
    assert project.run() == LEFT_TO_A_PERSON
    workflow(project, scene)
    assert project.run() == WRONG_CONFIGURATION
    assert "T-1" in project.output()
    assert scene.server.asked() == []
    assert project.parked()["1"][0] == "signal"
