"""Which tools a session has, what is counted, and what stays secret."""

from __future__ import annotations

import json
import stat

import pytest

from .scene import WORKFLOW

ALL = ["tracker_api", "sortie_status", "workspace_history"]


@pytest.mark.parametrize("listed", ["tracker_api,sortie_status,workspace_history", None])
@pytest.mark.parametrize(
    ("left_out", "names"),
    [
        ((), ALL),
        (("SORTIE_WORKSPACE",), ["tracker_api", "workspace_history"]),
        (("SORTIE_DB_PATH",), ["tracker_api", "sortie_status"]),
        (("SORTIE_ISSUE_ID",), ["tracker_api", "sortie_status"]),
        (("SORTIE_WORKSPACE", "SORTIE_DB_PATH", "SORTIE_ISSUE_ID"), ["tracker_api"]),
    ],
)
def test_a_tool_is_there_when_its_variables_are(project, listed, left_out, names):
    """EXT-11, EXT-13"""
    changes: dict[str, str | None] = {"SORTIE_TOOLS": listed, **dict.fromkeys(left_out)}
    with project.start(**changes) as sidecar:
        assert sidecar.names() == names


def test_only_the_tools_the_worker_names_are_there(project):
    with project.start(SORTIE_TOOLS="sortie_status") as sidecar:
        assert sidecar.names() == ["sortie_status"]
    with project.start(SORTIE_TOOLS="") as sidecar:
        assert sidecar.names() == []


@pytest.mark.parametrize(
    "content",
    [
        None,
        "no front matter",
        WORKFLOW.replace("kind: file", "kind: nowhere"),
        WORKFLOW.replace("path: issues.json", "path: 5"),
        WORKFLOW.replace("  active_states: [To Do, In Progress]\n  terminal_states: [Done]\n", ""),
    ],
)
def test_without_a_valid_tracker_configuration_there_is_no_tracker_api(project, content):
    """EXT-10: and the other tools work."""
    if content is None:
        project.workflow.unlink()
    else:
        project.workflow.write_text(content)
    with project.start(SORTIE_TOOLS=None) as sidecar:
        assert sidecar.names() == ["sortie_status", "workspace_history"]
        assert sidecar.call("sortie_status")["max_turns"] == 20
        sidecar.finish()
        assert "tracker_api is left out" in sidecar.errors


def test_every_call_is_counted_with_what_it_acted_on_and_nothing_else_of_its_content(project):
    """EXT-14: operation, target, state and kind of failure; never an answer; standard error has none of it."""
    move = {"operation": "transition_issue", "issue_id": "def456", "target_state": "done"}
    with project.start() as sidecar:
        sidecar.call("tracker_api", {"operation": "fetch_issue", "issue_id": "abc123"})
        sidecar.call("tracker_api", {"operation": "fetch_issue", "issue_id": "x\n\x1b" + "y" * 5000})
        sidecar.call("tracker_api", {"operation": "no such thing", "issue_id": 5, "target_state": "Done"})
        sidecar.call("tracker_api", move)
        sidecar.call("workspace_history")
        sidecar.finish()
        errors = sidecar.errors
    lines = [json.loads(line) for line in project.log.read_text().splitlines()]
    times = [(line.pop("at"), line.pop("ms")) for line in lines]
    assert all(isinstance(at, float) and isinstance(ms, float) for at, ms in times)
    ours, good, bad = {"run_id": "run-1", "tool": "tracker_api"}, {"result": "success"}, {"result": "error"}
    cut = "x??" + "y" * 197
    assert lines == [
        {**ours, **good, "operation": "fetch_issue", "target": "abc123"},
        {**ours, **bad, "operation": "fetch_issue", "target": cut, "error": "tracker_not_found"},
        {**ours, **bad, "operation": "no such thing", "error": "invalid_input"},
        {**ours, **good, "operation": "transition_issue", "target": "def456", "state": "done"},
        {**ours, **good, "tool": "workspace_history"},
    ]
    assert stat.S_IMODE(project.log.stat().st_mode) == 0o600
    assert errors.count("tool=") == 5
    assert "abc123" not in errors


@pytest.mark.parametrize("log", [None, "/dev/full", "/nowhere/log", "link", "/dev/null/log"])
def test_a_log_that_cannot_be_written_costs_no_answer(project, log):
    if log == "link":
        (project.root / "link").symlink_to("elsewhere")
        log = str(project.root / "link")
    with project.start(SORTIE_TOOL_LOG=log) as sidecar:
        assert sidecar.call("sortie_status")["max_turns"] == 20
    assert not (project.root / "elsewhere").exists()


def test_tools_answer_in_a_workspace_that_cannot_be_written(project):
    """COM-01: the data plane does not need the workspace's disk."""
    project.state.parent.chmod(0o500)
    project.workspace.chmod(0o500)
    try:
        with project.start(SORTIE_TOOL_LOG="/dev/full") as sidecar:
            assert sidecar.call("sortie_status")["max_turns"] == 20
            assert len(sidecar.call("workspace_history")["entries"]) == 2
            comments = sidecar.call("tracker_api", {"operation": "fetch_comments", "issue_id": "abc123"})
            assert comments["data"][0]["author"] == "bob"
    finally:
        project.workspace.chmod(0o700)
        project.state.parent.chmod(0o700)
    assert [entry.name for entry in project.state.parent.iterdir()] == ["state.json"]


def test_no_tool_writes_the_status_file(project):
    """COM-01: no crosstalk between the channels."""
    with project.start() as sidecar:
        for tool in sidecar.names():
            sidecar.call(tool, {"operation": "transition_issue", "issue_id": "def456", "target_state": "blocked"})
    assert [entry.name for entry in project.state.parent.iterdir()] == ["state.json"]


def test_secrets_of_the_environment_and_of_the_workflow_are_in_no_answer(project):
    secret, key, option = "env-secret-value", "workflow-secret-value", "option-secret-value"
    issues = json.loads(project.issues.read_text())
    issues[1]["description"] = f"{secret} and {key} and {option}"
    project.issues.write_text(json.dumps(issues))
    workflow = WORKFLOW.replace("project: PROJ", "project: PROJ\n  api_key: $MY_OWN_NAME")
    project.workflow.write_text(workflow.replace("agent:", f"mock:\n  token: {option}\nagent:"))
    with project.start(SORTIE_OTHER_TOKEN=secret, MY_OWN_NAME=key) as sidecar:
        answer = sidecar.call("tracker_api", {"operation": "fetch_issue", "issue_id": "def456"})
        assert answer["data"]["description"] == "[redacted] and [redacted] and [redacted]"
        sidecar.finish()
        assert secret not in sidecar.errors
