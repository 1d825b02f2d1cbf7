"""Tools of a team: how they are added, and that none of them can harm the server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sortie.tools import Tool, tool
from sortie.tools.team import from_list, listed

from .scene import MODULES, wait_until

GREET = "greet=team_tools:greet"
HELLO = {"name": "greet", "arguments": {"name": "you"}}


def install(directory: Path, **tools: str) -> None:
    """A package's entry points, the way an installer leaves them."""
    metadata = directory / "team_tools-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: team-tools\nVersion: 1.0\n")
    points = "".join(f"{name} = {target}\n" for name, target in tools.items())
    (metadata / "entry_points.txt").write_text(f"[sortie.tools]\n{points}")


def test_a_team_adds_a_tool_without_touching_the_core(project):
    """EXT-15: listed, called with its context, counted."""
    with project.start(SORTIE_TOOL_PLUGINS=GREET) as sidecar:
        tools = {entry["name"]: entry for entry in sidecar.ask("tools/list")["result"]["tools"]}
        assert list(tools) == ["tracker_api", "sortie_status", "workspace_history", "greet"]
        assert tools["greet"]["description"] == "Greets."
        assert tools["greet"]["inputSchema"]["required"] == ["name"]
        assert sidecar.call("greet", {"name": "you"}) == {
            "hello": "you",
            "issue": ["abc123", "PROJ-42", "run-1", 2],
            "workspace": str(project.workspace),
        }
    assert project.counted() == [("greet", "success")]


def test_installed_tools_are_found_where_the_worker_prepared_nothing(project, tmp_path):
    """EXT-15: through the entry point group `sortie.tools`."""
    install(tmp_path / "site", greet="team_tools:greet", broken="broken_tools:x")
    path = f"{tmp_path / 'site'}:{MODULES}"
    with project.start(SORTIE_TOOLS=None, PYTHONPATH=path) as sidecar:
        assert sidecar.names() == ["tracker_api", "sortie_status", "workspace_history", "greet"]
        assert sidecar.call("greet", {"name": "you"})["hello"] == "you"
        sidecar.finish()
        assert "half installed" in sidecar.errors


def test_a_prepared_session_does_not_search_installed_packages(project, tmp_path):
    install(tmp_path / "site", greet="team_tools:greet")
    with project.start(PYTHONPATH=f"{tmp_path / 'site'}:{MODULES}") as sidecar:
        assert "greet" not in sidecar.names()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("raises", "raises failed: RuntimeError: no access with [redacted]"),
        ("leaves", "leaves failed: SystemExit: 3"),
        ("hangs", "hangs did not answer within 0.2 s"),
        ("strange", "strange failed: TypeError: Object of type object is not JSON serializable"),
        ("greet", "greet failed: KeyError: 'name'"),
    ],
)
def test_a_tool_that_misbehaves_gives_an_error_and_the_server_goes_on(project, name, text):
    """EXT-15"""
    plugins = f"{name}=team_tools:{name}"
    with project.start(SORTIE_TOOL_PLUGINS=plugins, SORTIE_DEPLOY_TOKEN="hunter2-hunter2") as sidecar:
        result = sidecar.ask("tools/call", {"name": name})["result"]
        assert result["isError"] is True
        assert json.loads(result["content"][0]["text"]) == {"error": text}
        assert sidecar.call("sortie_status")["max_turns"] == 20
        sidecar.finish()
        assert "hunter2" not in sidecar.errors
    assert project.counted() == [(name, "error"), ("sortie_status", "success")]
    assert "hunter2" not in project.log.read_text()


def test_answers_may_be_text_and_lists(project):
    plugins = "text=team_tools:text,listing=team_tools:listing,half=team_tools:half"
    with project.start(SORTIE_TOOL_PLUGINS=plugins) as sidecar:
        assert sidecar.ask("tools/call", {"name": "text"})["result"] == {
            "content": [{"type": "text", "text": "grüße"}]
        }
        assert sidecar.ask("tools/call", {"name": "listing"})["result"] == {
            "content": [{"type": "text", "text": "[1, 2]"}]
        }
        assert sidecar.call("half") == {"half": "?"}


def test_what_cannot_be_used_is_left_out_and_said_so(project):
    """EXT-15: a clash with one of ours, with another team's, a broken package, a wrong name."""
    targets = {
        "greet": "team_tools:greet",
        "usurper": "team_tools:usurper",
        "second": "team_tools:second",
        "broken": "broken_tools:x",
        "missing": "team_tools:no_such_thing",
        "nowhere": "no_such_module:x",
        "string": "team_tools:not_a_tool",
    }
    with project.start(SORTIE_TOOL_PLUGINS=listed(targets)) as sidecar:
        assert sidecar.names() == ["tracker_api", "sortie_status", "workspace_history", "greet"]
        assert sidecar.call("greet", {"name": "you"})["hello"] == "you"
        assert sidecar.call("tracker_api", {"operation": "fetch_comments", "issue_id": "abc123"})["success"]
        sidecar.finish()
        left_out = [line for line in sidecar.errors.splitlines() if "is left out" in line]
    assert [line.split()[3] for line in left_out] == ["usurper", "second", "broken", "missing", "nowhere", "string"]


def test_other_requests_are_answered_while_a_tool_hangs_and_a_cancelled_call_never(project, tmp_path):
    began = tmp_path / "began"
    with project.start(SORTIE_TOOL_PLUGINS="waits=team_tools:waits") as sidecar:
        call = {"name": "waits", "arguments": {"began": str(began)}}
        sidecar.send({"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": call})
        wait_until(began.exists)
        sidecar.send({"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": call})
        assert sidecar.receive()["error"]["code"] == -32600, "the id is in use"
        assert sidecar.ask("ping")["result"] == {}
        assert sidecar.call("sortie_status")["max_turns"] == 20
        params = {"requestId": "w", "reason": "no longer needed"}
        sidecar.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        assert sidecar.ask("ping")["result"] == {}
        assert sidecar.finish() == (0, [])
    assert project.counted() == [("sortie_status", "success"), ("waits", "error")]


def test_too_many_calls_are_refused_and_all_cancelled_ones_leave(project, tmp_path):
    with project.start(SORTIE_TOOL_PLUGINS="waits=team_tools:waits") as sidecar:
        call = {"name": "waits", "arguments": {"began": str(tmp_path / "began")}}
        for number in range(1000, 1300):
            sidecar.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call})
        refused = [sidecar.receive() for _ in range(44)]
        assert {answer["error"]["code"] for answer in refused} == {-32000}
        for number in range(1000, 1300):
            frame = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            sidecar.send(frame)
        wait_until(lambda: len(project.counted()) == 256)
        assert sidecar.call("sortie_status")["max_turns"] == 20


def test_a_list_of_tools_survives_the_environment():
    targets = {"a": "pkg.mod:attr", "b": "other:thing"}
    assert from_list(listed(targets)) == targets
    assert from_list("") == {}
    assert from_list(" a = m:x , ") == {"a": "m:x"}


def test_a_definition_that_no_client_would_take_is_refused():
    with pytest.raises(ValueError, match="no tool name"):
        tool(name="has spaces", description="")
    with pytest.raises(ValueError, match="object"):
        tool(name="a", description="", input_schema={"type": "string"})
    with pytest.raises(ValueError, match="timeout"):
        tool(name="a", description="", timeout=0)

    @tool(name="a", description="b")
    def made(arguments, context):
        return "answer"

    assert isinstance(made, Tool)
    assert made.run({}, None) == "answer"  # type: ignore[arg-type]
