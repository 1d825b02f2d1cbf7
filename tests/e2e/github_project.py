"""A project whose issues are in a repository on GitHub: the service asks an emulator by way of a proxy."""

from __future__ import annotations

from typing import Any

from sortie.core.observe import mark_of
from tests.servers.emulate import REPOSITORY
from tests.servers.github_scene import TOKEN, GitHubScene

from .project import Project, merged

PROMPT = """\
{{ issue.identifier }}: {{ issue.title }}
{{ issue.description }}
{% for comment in issue.comments or [] %}{{ comment.author }} ({{ comment.trusted }}):
{{ comment.body }}
{% endfor %}"""

KEEPS_ITS_PROMPT = 'cat > "$SORTIE_WORKFLOW_DIR/prompt-$SORTIE_ISSUE_ID-$SORTIE_ATTEMPT"\n'


def workflow(project: Project, scene: GitHubScene, **settings: Any) -> None:
    usual = {
        "tracker": {
            "kind": "github",
            "endpoint": scene.server.url,
            "project": REPOSITORY,
            "api_key": "$GITHUB_TOKEN",
            "active_states": ["todo", "in-progress"],
            "in_progress_state": "in-progress",
            "handoff_state": "review",
            "terminal_states": ["done", "wontfix"],
            "failed_states": ["wontfix"],
            "comments": {"on_dispatch": True, "on_completion": True, "on_failure": True},
            "calls_per_minute": 100_000,
        },
        "budget": {"per_issue": {"sessions": 20}, "per_day": {"sessions": 1000}},
    }
    project.environment["GITHUB_TOKEN"] = TOKEN
    project.workflow(merged(usual, settings), PROMPT)


def opened(project: Project, scene: GitHubScene, script: str, *labels: str, **fields: Any) -> str:
    """A new issue, and the script that is its agent; its id."""
    number = scene.open("Paint it", *(labels or ("todo",)), **fields)
    (project.root / "agents" / f"{number}.sh").write_text(script)
    return str(number)


def looks(scene: GitHubScene) -> int:
    """How many looks at the issues there were."""
    return len(scene.server.asked("GET .*/issues[?].*labels=todo.*"))


def marks(scene: GitHubScene, issue_id: str) -> list[str]:
    """By which the comments of the service are told apart: what was planned, without the run that planned it."""
    return [mark for one in scene.comments(int(issue_id)) if (mark := mark_of(one["body"]))]


def prompt_of(project: Project, issue_id: str, attempt: int) -> str:
    return (project.root / f"prompt-{issue_id}-{attempt}").read_text()
