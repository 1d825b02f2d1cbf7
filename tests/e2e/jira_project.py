"""A project whose issues are on a Jira site: the service asks a site of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sortie.core.observe import mark_of
from sortie.trackers.jira.adf_text import text_of
from tests.servers.jira_fake import KEY, JiraFake
from tests.servers.jira_schema import JiraSchema
from tests.servers.jira_store import StoredIssue

from .project import Project


@pytest.fixture(name="jira")
def jira_site() -> Iterator[JiraFake]:
    with JiraFake(JiraSchema()).running() as fake:
        yield fake
    assert fake.problems == []


@pytest.fixture(name="site")
def project_on_jira(jira: JiraFake, tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "project"
    root.mkdir()
    made = Project(root)
    made.environment["JIRA_KEY"] = KEY
    made.workflow(settings(jira))
    yield made
    made.clean_up()


def settings(jira: JiraFake, **more: Any) -> dict[str, Any]:
    return {
        "tracker": {
            "kind": "jira",
            "endpoint": jira.url,
            "project": "PROJ",
            "api_key": "$JIRA_KEY",
            "active_states": ["Todo", "In Progress"],
            "terminal_states": ["Done"],
            "in_progress_state": "In Progress",
            "handoff_state": "In Review",
            "calls_per_minute": 10_000,
            "comments": {"on_dispatch": True, "on_completion": True},
        },
        "budget": {"per_issue": {"sessions": 20}},
        **more,
    }


def give(project: Project, issue: StoredIssue, script: str) -> str:
    (project.root / "agents" / f"{issue.id}.sh").write_text(script)
    return str(issue.id)


def comments(issue: StoredIssue) -> list[str]:
    return [text_of(comment.body) for comment in issue.comments]


def marks(issue: StoredIssue) -> list[str | None]:
    return [mark_of(body) for body in comments(issue)]
