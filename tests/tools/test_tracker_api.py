"""`tracker_api`: every operation, every field and every kind of error, compared with the documented JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from sortie.core.model import Issue
from sortie.errors import TrackerError
from sortie.tools.tracker_api import Reach, belongs, handle
from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import Candidates, TrackerSettings

from .scene import BARE_ISSUE, FULL_ISSUE

KEY = "s3cret-key-of-the-tracker"


def settings_of(project, name: str = "PROJ") -> TrackerSettings:
    return TrackerSettings(
        kind="file",
        active_states=("To Do", "In Progress"),
        terminal_states=("Done",),
        handoff_state="In Review",
        project=name,
        api_key=KEY,
        base=project.root,
    )


@pytest.fixture
def ask(project):
    settings = settings_of(project)
    tracker = FileTracker.from_settings(settings)

    async def ask(**arguments: Any) -> dict[str, Any]:
        return await handle(arguments, tracker, settings)

    return ask


class Failing:
    """A tracker of another package: `fetch_issue` and `transition` do what they are told."""

    def __init__(self, error: BaseException | None = None, identifier: str = "PROJ-1") -> None:
        self.error = error
        self.identifier = identifier
        self.transitions: list[tuple[str, str]] = []
        self.cancelled = False

    async def fetch_issue(self, issue_id: str) -> Issue:
        if self.error:
            raise self.error
        return Issue(id=issue_id, identifier=self.identifier, title="T", state="To Do")

    async def fetch_candidates(self) -> Candidates:
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled = True
        return Candidates(())

    async def transition(self, issue_id: str, state: str) -> None:
        self.transitions.append((issue_id, state))


class Renaming(Failing):
    """A tracker that knows issues by several names."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self.names = names

    async def fetch_issue(self, issue_id: str) -> Issue:
        return await super().fetch_issue(self.names[issue_id])


async def test_fetch_issue_answers_the_documented_record(ask):
    """EXT-07: fetch_issue, all fields in the documented order."""
    answer = await ask(operation="fetch_issue", issue_id="abc123")
    assert json.dumps(answer) == json.dumps({"success": True, "data": FULL_ISSUE})


async def test_fields_without_a_value_are_null_empty_text_or_an_empty_list(ask):
    """EXT-07: the null, "" and [] rules."""
    bare = (await ask(operation="fetch_issue", issue_id="def456"))["data"]
    assert bare == {
        **BARE_ISSUE,
        "description": "",
        "priority": None,
        "labels": [],
        "assignee": "",
        "issue_type": "",
        "url": "",
        "branch_name": "",
        "parent": None,
        "comments": None,
        "blocked_by": [],
        "created_at": "",
        "updated_at": "",
    }
    assert list(bare) == list(FULL_ISSUE)
    assert (await ask(operation="search_issues"))["data"][1] == bare


async def test_comments_that_were_not_fetched_are_null(project):
    answer = await handle({"operation": "fetch_issue", "issue_id": "1"}, Failing(), settings_of(project))  # type: ignore[arg-type]
    assert answer["data"]["comments"] is None


async def test_fetch_comments_answers_the_comments_alone(ask):
    """EXT-07: fetch_comments"""
    answer = await ask(operation="fetch_comments", issue_id="abc123")
    assert answer == {"success": True, "data": FULL_ISSUE["comments"]}
    assert await ask(operation="fetch_comments", issue_id="def456") == {"success": True, "data": []}


async def test_search_issues_answers_the_active_issues_of_the_project(ask):
    """EXT-08: neither terminal issues nor those of other projects."""
    answer = await ask(operation="search_issues")
    assert [issue["id"] for issue in answer["data"]] == ["abc123", "def456"]


async def test_transition_issue_moves_the_issue(ask, project):
    """EXT-07: transition_issue"""
    answer = await ask(operation="transition_issue", issue_id="def456", target_state="In Review")
    assert answer == {"success": True, "data": {"transitioned": True}}
    states = {issue["id"]: issue["state"] for issue in json.loads(project.issues.read_text())}
    assert states["def456"] == "In Review"


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        [],
        "not an object",
        {},
        {"operation": ""},
        {"operation": 5},
        {"operation": "search_issues", "limit": 5},
        {"operation": "fetch_issue"},
        {"operation": "fetch_issue", "issue_id": " "},
        {"operation": "fetch_issue", "issue_id": 42},
        {"operation": "fetch_comments"},
        {"operation": "transition_issue", "issue_id": "def456"},
        {"operation": "transition_issue", "issue_id": "def456", "target_state": ""},
        {"operation": "transition_issue", "target_state": "Done"},
        {"operation": "no_such", "extra": "1"},
    ],
)
async def test_a_malformed_request_is_invalid_input(arguments, project):
    """EXT-07: invalid_input"""
    tracker = Failing()
    answer = await handle(arguments, tracker, settings_of(project))  # type: ignore[arg-type]
    assert answer["error"]["kind"] == "invalid_input"
    assert list(answer) == ["success", "error"]
    assert list(answer["error"]) == ["kind", "message"]
    assert answer["success"] is False
    assert tracker.transitions == []


async def test_another_operation_is_unsupported(ask):
    """EXT-07: unsupported_operation"""
    answer = await ask(operation="delete_issue", issue_id="abc123")
    assert answer["error"]["kind"] == "unsupported_operation"
    assert "delete_issue" in answer["error"]["message"]


@pytest.mark.parametrize("operation", ["fetch_issue", "fetch_comments", "transition_issue"])
async def test_an_issue_of_another_project_is_out_of_reach(operation, project):
    """EXT-09: before any mutation."""
    tracker = Failing(identifier="OTHER-1")
    arguments = {"operation": operation, "issue_id": "1", "target_state": "Done"}
    answer = await handle(arguments, tracker, settings_of(project))  # type: ignore[arg-type]
    assert answer["error"]["kind"] == "project_scope_violation"
    assert "data" not in answer
    assert tracker.transitions == []


async def test_without_a_project_nothing_is_out_of_scope(project):
    """EXT-09: disabled when `tracker.project` is empty."""
    tracker = Failing(identifier="OTHER-1")
    arguments = {"operation": "transition_issue", "issue_id": "1", "target_state": "Done"}
    assert (await handle(arguments, tracker, settings_of(project, "")))["success"]  # type: ignore[arg-type]
    assert tracker.transitions == [("1", "Done")]


@pytest.mark.parametrize(
    ("identifier", "project", "inside"),
    [
        ("PROJ-42", "PROJ", True),
        ("proj-42", "PROJ", True),
        ("PROJ-42", "PRO", False),
        ("PROJ-X-42", "PROJ", False),
        ("PROJ-X-42", "PROJ-X", True),
        ("owner/repo#42", "owner/repo", True),
        ("owner/my-repo#42", "owner/my-repo", True),
        ("owner/other#42", "owner/repo", False),
        ("C#-42", "C#", True),
        ("42", "owner/repo", False),
        ("10001", "PROJ", False),
        ("PROJ", "PROJ", False),
        ("PROJ-", "PROJ", False),
        ("PROJ-4a", "PROJ", False),
        ("-42", "", True),
        ("weird id", "PROJ", False),
        ("PROJ-42\n", "PROJ", False),
        ("OTHER-42", "", True),
    ],
)
def test_the_project_of_an_identifier(identifier, project, inside):
    """EXT-09: what names no project in a known form is outside of every project."""
    assert belongs(identifier, project) is inside


@pytest.mark.parametrize("identifier", ["10001", "weird id", "PROJ"])
@pytest.mark.parametrize("operation", ["fetch_issue", "fetch_comments", "transition_issue"])
async def test_an_identifier_of_an_unknown_form_is_out_of_reach(operation, identifier, project):
    """EXT-09: the scope fails closed, before any mutation."""
    tracker = Failing(identifier=identifier)
    arguments = {"operation": operation, "issue_id": "1", "target_state": "Done"}
    answer = await handle(arguments, tracker, settings_of(project))  # type: ignore[arg-type]
    assert answer["error"]["kind"] == "project_scope_violation"
    assert tracker.transitions == []


@pytest.mark.parametrize("name", ["PROJ", ""])
async def test_with_own_only_the_issue_of_the_session_can_be_moved(project, name):
    """EXT-09: whatever name of it the tracker understands; everything can still be read."""
    settings, reach = settings_of(project, name), Reach("own", "1")
    tracker = Renaming({"1": "1", "PROJ-1": "1", "2": "2"})

    async def move(issue_id: str) -> dict[str, Any]:
        order = {"operation": "transition_issue", "issue_id": issue_id, "target_state": "Done"}
        return await handle(order, tracker, settings, reach)  # type: ignore[arg-type]

    assert (await move("1"))["success"]
    assert (await move("PROJ-1"))["success"]
    refused = (await move("2"))["error"]
    assert refused["kind"] == "project_scope_violation"
    assert "tools.transitions: own" in refused["message"]
    assert tracker.transitions == [("1", "Done"), ("PROJ-1", "Done")]
    seen = await handle({"operation": "fetch_issue", "issue_id": "2"}, tracker, settings, reach)  # type: ignore[arg-type]
    assert seen["success"]


async def test_a_session_without_an_issue_owns_none(project):
    tracker = Failing()
    order = {"operation": "transition_issue", "issue_id": "1", "target_state": "Done"}
    answer = await handle(order, tracker, settings_of(project), Reach("own", ""))  # type: ignore[arg-type]
    assert answer["error"]["kind"] == "project_scope_violation"
    assert tracker.transitions == []


async def test_with_none_no_issue_can_be_moved(project):
    """EXT-07: an operation that the workflow does not offer is unsupported_operation."""
    tracker = Failing()
    order = {"operation": "transition_issue", "issue_id": "1", "target_state": "Done"}
    refused = (await handle(order, tracker, settings_of(project), Reach("none", "1")))["error"]  # type: ignore[arg-type]
    assert refused["kind"] == "unsupported_operation"
    assert "tools.transitions: none" in refused["message"]
    assert tracker.transitions == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TrackerError(TrackerError.TRANSPORT, "no route"), "tracker_transport_error"),
        (TrackerError(TrackerError.AUTH, "authentication failed: invalid API key"), "tracker_auth_error"),
        (TrackerError(TrackerError.API, "rate limited"), "tracker_api_error"),
        (TrackerError(TrackerError.NOT_FOUND, "no such issue"), "tracker_not_found"),
        (TrackerError(TrackerError.PAYLOAD, "no such state"), "tracker_payload_error"),
        (TrackerError("something_new", "odd"), "tracker_api_error"),
        (ConnectionResetError("gone"), "tracker_transport_error"),
        (TimeoutError(), "tracker_transport_error"),
        (KeyError("x"), "internal_error"),
        (ExceptionGroup("several", [ValueError("y")]), "internal_error"),
    ],
)
async def test_every_failure_of_the_tracker_has_its_kind(error, kind, project):
    """EXT-07: the tracker kinds and internal_error."""
    arguments = {"operation": "fetch_issue", "issue_id": "1"}
    answer = await handle(arguments, Failing(error), settings_of(project))  # type: ignore[arg-type]
    assert answer["error"]["kind"] == kind
    assert answer["error"]["message"]


async def test_a_tracker_that_does_not_answer_is_a_transport_error(project):
    """EXT-07: deadline exceeded."""
    tracker = Failing()
    answer = await handle({"operation": "search_issues"}, tracker, settings_of(project), deadline=0.01)  # type: ignore[arg-type]
    assert answer["error"] == {
        "kind": "tracker_transport_error",
        "message": "The tracker did not answer within 0.01 s.",
    }
    assert tracker.cancelled


async def test_the_key_of_the_tracker_is_in_no_answer(project):
    error = TrackerError(TrackerError.AUTH, f"authentication failed for {KEY}")
    arguments = {"operation": "fetch_issue", "issue_id": "1"}
    answer = await handle(arguments, Failing(error), settings_of(project))  # type: ignore[arg-type]
    assert answer["error"]["message"] == "authentication failed for [redacted]"


async def test_an_internal_error_tells_where_and_nothing_of_what(project):
    arguments = {"operation": "fetch_issue", "issue_id": "1"}
    answer = await handle(arguments, Failing(RuntimeError("private")), settings_of(project))  # type: ignore[arg-type]
    assert "RuntimeError" in answer["error"]["message"]
    assert "private" not in answer["error"]["message"]
    assert "Traceback" not in answer["error"]["message"]


async def test_what_the_file_tracker_refuses_has_the_documented_kinds(ask, project):
    assert (await ask(operation="fetch_issue", issue_id="missing"))["error"]["kind"] == "tracker_not_found"
    move = {"operation": "transition_issue", "issue_id": "missing", "target_state": "Done"}
    assert (await ask(**move))["error"]["kind"] == "tracker_not_found"
    move = {"operation": "transition_issue", "issue_id": "def456", "target_state": "Banana"}
    assert (await ask(**move))["error"]["kind"] == "tracker_payload_error"
    Path(project.issues).write_text("{")
    assert (await ask(operation="search_issues"))["error"]["kind"] == "tracker_payload_error"


def test_the_sidecar_answers_for_the_tracker_of_the_workflow(sidecar, project):
    """EXT-07 through the process, with the envelope as the exact text."""
    answer = sidecar.ask("tools/call", {"name": "tracker_api", "arguments": {"operation": "search_issues"}})
    text = answer["result"]["content"][0]["text"]
    assert [issue["id"] for issue in json.loads(text)["data"]] == ["abc123", "def456"]
    assert "isError" not in answer["result"]
    failed = sidecar.ask("tools/call", {"name": "tracker_api", "arguments": {"operation": "nonsense"}})["result"]
    assert failed["isError"] is True
    assert failed["structuredContent"]["error"]["kind"] == "unsupported_operation"
    moved = sidecar.call(
        "tracker_api", {"operation": "transition_issue", "issue_id": "def456", "target_state": "Done"}
    )
    assert moved == {"success": True, "data": {"transitioned": True}}
    out = sidecar.call(
        "tracker_api", {"operation": "transition_issue", "issue_id": "other", "target_state": "Done"}
    )
    assert out["error"]["kind"] == "project_scope_violation"
    assert project.counted() == [
        ("tracker_api", "success"),
        ("tracker_api", "error"),
        ("tracker_api", "success"),
        ("tracker_api", "error"),
    ]


def test_a_workflow_that_broke_after_the_start_is_an_internal_error(project):
    project.workflow.write_text("no front matter")
    with project.start() as sidecar:
        answer = sidecar.call("tracker_api", {"operation": "search_issues"})
        assert answer["error"]["kind"] == "internal_error"
        assert "WORKFLOW.md" in answer["error"]["message"]
        assert sidecar.call("sortie_status")["max_turns"] == 20


MOVE_ANOTHER = {"operation": "transition_issue", "issue_id": "def456", "target_state": "Done"}


@pytest.mark.parametrize("listed", ["tracker_api", None])
@pytest.mark.parametrize(
    ("word", "kind"), [("project", None), ("own", "project_scope_violation"), ("none", "unsupported_operation")]
)
def test_the_sidecar_offers_and_does_what_the_workflow_lets_agents_move(project, listed, word, kind):
    """EXT-07 EXT-09: `tools.transitions` in the schema and in what happens, however the server was started."""
    project.workflow.write_text(
        project.workflow.read_text().replace("agent:", f"tools: {{transitions: {word}}}\nagent:")
    )
    told = word if listed else None
    with project.start(SORTIE_TOOLS=listed, SORTIE_TRANSITIONS=told) as sidecar:
        schema = next(
            tool["inputSchema"]
            for tool in sidecar.ask("tools/list")["result"]["tools"]
            if tool["name"] == "tracker_api"
        )
        assert ("transition_issue" in schema["properties"]["operation"]["enum"]) == (word != "none")
        assert ("target_state" in schema["properties"]) == (word != "none")
        answer = sidecar.call("tracker_api", MOVE_ANOTHER)
        assert answer.get("error", {}).get("kind") == kind
    states = {issue["id"]: issue["state"] for issue in json.loads(project.issues.read_text())}
    assert states["def456"] == ("To Do" if kind else "Done")
