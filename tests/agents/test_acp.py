"""How an agent of the Agent Client Protocol is spoken to, with stand-ins that play what real ones said."""

from __future__ import annotations

import json

import pytest

from sortie.agents.acp.acp_agents import UNKNOWN
from sortie.agents.acp.acp_messages import McpCapabilities
from sortie.agents.acp.acp_session import servers_for
from sortie.agents.agent import ErrorReported, ToolStarted, TurnFinished
from sortie.core.model import Usage
from sortie.errors import AgentError

from .acp_lab import Lab
from .playing import TRANSCRIPTS

MCP = {
    "mcpServers": {
        "sortie-tools": {"type": "stdio", "command": "/bin/tools", "args": ["mcp-server"], "env": {"A": "1"}},
        "plain": {"command": "/bin/plain"},
        "far": {"type": "http", "url": "https://mcp.example.com", "headers": {"X-Key": "k"}},
        "old": {"type": "sse", "url": "https://mcp.example.com/sse"},
    }
}
STDIO = {
    "name": "sortie-tools",
    "command": "/bin/tools",
    "args": ["mcp-server"],
    "env": [{"name": "A", "value": "1"}],
}


@pytest.fixture
def lab(tmp_path, make_order, recorder):
    return Lab(tmp_path, make_order, recorder)


@pytest.fixture
def mcp(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(MCP))
    return path


async def test_a_session_of_two_turns_from_greeting_to_close(lab, workspace):
    await lab.run("claude-two-prompts", prompts=["Go.", "Ünïcode \ud800 again."])
    methods = [method for method, _ in lab.requests]
    assert methods == ["initialize", "session/new", "session/set_mode", "session/prompt", "session/prompt"]
    assert all(one["jsonrpc"] == "2.0" for one in lab.told)
    greeting = lab.asked("initialize")
    assert greeting["protocolVersion"] == 1
    assert greeting["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }
    assert lab.asked("session/new") == {"cwd": str(workspace), "mcpServers": []}
    assert lab.asked("session/set_mode")["modeId"] == "bypassPermissions"
    opened = lab.recorder.sessions
    assert len(opened) == 1
    assert lab.asked("session/prompt") == {"sessionId": opened[0], "prompt": [{"type": "text", "text": "Go."}]}
    assert lab.requests[-1][1]["prompt"][0]["text"] == "Ünïcode ? again."
    assert lab.events(TurnFinished) == [TurnFinished("completed"), TurnFinished("completed")]
    assert sum(usage.input for usage in lab.recorder.used) == 4700


async def test_totals_are_counted_over_the_turns_of_a_session(lab):
    """Copilot tells the tokens of the whole session with each answer."""
    await lab.run("copilot-two-prompts", prompts=["Go.", "Again."])
    assert lab.recorder.used == [Usage(3200, 150, 300), Usage(1000, 50)]


def conversation_in(recording):
    messages = map(json.loads, (TRANSCRIPTS / f"acp-{recording}.jsonl").read_text().splitlines())
    return next(one["params"]["sessionId"] for one in messages if "sessionId" in (one.get("params") or {}))


@pytest.mark.parametrize(
    ("recording", "method"),
    [
        ("claude-resume", "session/resume"),
        ("copilot-resume", "session/load"),
        ("opencode-resume", "session/resume"),
    ],
)
async def test_a_conversation_is_resumed_by_what_the_agent_offers(lab, recording, method, workspace):
    """What it cost before is not counted again."""
    name = conversation_in(recording)
    await lab.run(recording, order={"resume": name, "resume_cost": 1.0})
    assert lab.asked(method) == {"sessionId": name, "cwd": str(workspace), "mcpServers": []}
    assert lab.recorder.sessions == [name]
    assert lab.recorder.used == [Usage(1000, 50)]


@pytest.mark.parametrize("recording", ["copilot-resume", "gemini-resume"])
async def test_a_history_that_is_replayed_is_not_told_again(lab, recording):
    """Gemini CLI goes on with it after its answer."""
    await lab.run(recording, order={"resume": conversation_in(recording)})
    assert lab.recorder.said == ["again"]
    assert lab.events(ToolStarted) == []
    assert lab.recorder.used == [Usage(1000, 50)]


@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "gemini", "opencode"])
async def test_a_conversation_that_is_not_known_is_begun_anew(lab, name):
    await lab.run(f"{name}-unknown-id", order={"resume": "11111111-1111-4111-8111-111111111111"})
    _, asked, begun, *_ = [method for method, _ in lab.requests]
    assert (asked, begun) == ("session/list" if name == "opencode" else asked, "session/new")
    assert asked in ("session/resume", "session/load", "session/list")
    (opened,) = lab.recorder.sessions
    assert not opened.startswith("1111")
    assert "cannot be resumed" in lab.events(ErrorReported)[0].detail


async def test_opencode_does_not_go_on_in_another_directory(lab):
    """It would work where the conversation began, whatever directory it is told."""
    session = await lab.open(
        "opencode-resume",
        'session/list={"sessions": []}',
        'session/new={"sessionId": "fresh"}',
        order={"resume": "x"},
    )
    await session.close()
    assert "session/resume" not in [method for method, _ in lab.requests]
    assert lab.recorder.sessions == ["fresh"]
    assert "does not belong to this workspace" in lab.events(ErrorReported)[0].detail


async def test_an_agent_that_cannot_resume_begins_anew(lab):
    greeting = json.dumps({"protocolVersion": 1, "agentCapabilities": {}})
    session = await lab.open(
        "claude-two-prompts",
        f"initialize={greeting}",
        'session/new={"sessionId": "fresh"}',
        order={"resume": "abc"},
    )
    await session.close()
    assert lab.recorder.sessions == ["fresh"]
    assert "neither session/resume nor session/load" in lab.events(ErrorReported)[0].detail


async def test_our_tools_reach_the_agent_and_others_where_it_takes_them(lab, mcp):
    await lab.run("codex-two-prompts", order={"mcp_config": mcp})
    servers = lab.asked("session/new")["mcpServers"]
    assert servers[0] == STDIO
    assert servers[1:] == [
        {"name": "plain", "command": "/bin/plain", "args": [], "env": []},
        {
            "type": "http",
            "name": "far",
            "url": "https://mcp.example.com",
            "headers": [{"name": "X-Key", "value": "k"}],
        },
    ]
    assert "the MCP server old is left out" in lab.events(ErrorReported)[0].detail


async def test_codex_waits_for_the_tools_before_it_works(lab):
    await lab.run("codex-two-prompts")
    assert lab.asked("session/new")["_meta"] == {"mcpStartupAwaitTimeoutMs": 20_000}


async def test_copilot_is_told_to_take_the_tools_by_an_argument(lab, mcp):
    await lab.run("copilot-two-prompts", order={"mcp_config": mcp})
    assert [one["name"] for one in lab.asked("session/new")["mcpServers"]] == ["far", "old"]
    assert '--additional-mcp-config @"$SORTIE_MCP_CONFIG"' in lab.events(ErrorReported)[0].detail


async def test_copilot_with_that_argument_gives_no_cause_for_complaint(lab, mcp):
    argument = ' --additional-mcp-config=@"$SORTIE_MCP_CONFIG"'
    await lab.run("copilot-two-prompts", order={"mcp_config": mcp}, more=argument)
    assert lab.events(ErrorReported) == []


@pytest.mark.parametrize("content", ["{", '{"mcpServers": 5}', '{"mcpServers": {"a": {"args": 1}}}'])
def test_a_list_of_servers_that_cannot_be_read_is_an_error(tmp_path, make_order, content):
    (tmp_path / "mcp.json").write_text(content)
    with pytest.raises(AgentError, match="cannot be read"):
        servers_for(make_order(mcp_config=tmp_path / "mcp.json"), McpCapabilities(), UNKNOWN)
    assert servers_for(make_order(), McpCapabilities(), UNKNOWN) == ([], [])


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_tools_that_do_not_start_end_the_turn_at_once(lab, name):
    error = await lab.fail(f"{name}-broken-tools", "session/prompt=pause")
    assert error.kind == AgentError.TOOLS


async def test_a_turn_that_cannot_succeed_any_more_is_cancelled(lab):
    error = await lab.fail("claude-broken-tools", "session/prompt=pause")
    assert error.kind == AgentError.TOOLS
    assert lab.told[-1]["method"] == "session/cancel"
