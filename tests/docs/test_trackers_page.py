"""The page about trackers shows settings that work, and says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sortie.cli.main import main
from sortie.sources.adapters import check_workflow
from sortie.trackers.github.github import GitHubTracker
from sortie.trackers.jira.jira import JiraTracker
from sortie.trackers.tracker import TrackerSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/trackers.md").read_text()
README = (ROOT / "README.md").read_text()
ENVIRONMENT = {"GITHUB_TOKEN": "ghp_0123456789", "JIRA_API_TOKEN": "me@example.com:0123456789"}
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
WORKFLOWS = [block for block in BLOCKS if block.startswith("tracker:")]


@pytest.mark.parametrize("settings", WORKFLOWS, ids=lambda text: re.findall("kind: (.*)", text)[0])
def test_the_settings_on_the_page_are_those_of_a_workflow_that_works(tmp_path, settings):
    path = tmp_path / "WORKFLOW.md"
    path.write_text(f"---\n{settings}agent: {{kind: mock}}\n---\nDo {{{{ issue.title }}}}\n")
    assert check_workflow(path, ENVIRONMENT, None) == []


def test_an_app_takes_the_place_of_the_token_as_the_page_says(tmp_path):
    """Its key is read by nobody before it is needed, but it has to be there."""
    (app,) = [block for block in BLOCKS if block.startswith("github:")]
    settings = next(text for text in WORKFLOWS if "kind: github" in text).replace("  api_key: $GITHUB_TOKEN\n", "")
    path = tmp_path / "WORKFLOW.md"
    path.write_text(f"---\n{settings}{app}agent: {{kind: mock}}\n---\nDo {{{{ issue.title }}}}\n")
    (tmp_path / "app.private-key.pem").write_text("a key")
    (tmp_path / "app.private-key.pem").chmod(0o600)
    assert [problem for problem in check_workflow(path, {}, None) if problem.severity == "error"] == []


@pytest.mark.parametrize("command", re.findall(r"sortie (init [^\n`]*--tracker [^\n`]*)", PAGE + README))
def test_the_commands_on_the_pages_write_a_workflow_that_works(tmp_path, monkeypatch, command, capsys):
    monkeypatch.chdir(tmp_path)
    words = command.split("#")[0].replace("OWNER/REPO", "octo/parser").split(" and ")[0].split()
    words += [] if "--agent" in words else ["--agent", "mock"]
    if "--project" not in words:
        words += ["--project", "octo/parser"]
    assert main(words) == 0, capsys.readouterr()
    (path,) = tmp_path.rglob("WORKFLOW.md")
    assert [problem for problem in check_workflow(path, ENVIRONMENT, None) if problem.severity == "error"] == []


def test_who_is_trusted_without_a_setting_is_what_the_page_says():
    row = re.search(r"^\| trusted without a setting \|(.*)\|$", PAGE, re.M)
    assert row
    _, github, jira, *_ = (cell.strip() for cell in row[1].split("|"))
    assert github == "owners, members, collaborators"
    assert {word.strip("@").lower() + "s" for word in GitHubTracker.trusted_by_default} == {*github.split(", ")}
    assert JiraTracker.trusted_by_default == ("@atlassian",)
    assert jira.startswith("accounts of the site")


def test_the_budget_of_calls_is_what_the_page_says():
    assert f"`tracker.calls_per_minute` ({TrackerSettings(kind='', active_states=()).calls_per_minute})" in PAGE
