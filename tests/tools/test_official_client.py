"""The official client, in each way it can connect, against the real process."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}


@pytest.fixture
def server(project):
    command, *arguments = project.command()
    variables = project.environment(SORTIE_TOOL_PLUGINS="greet=team_tools:greet,raises=team_tools:raises")
    return StdioServerParameters(command=command, args=arguments, env=variables)


def text_of(result: Any) -> Any:
    (block,) = result.content
    assert block.type == "text"
    return json.loads(block.text)


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_lists_and_calls_every_tool(server, mode):
    with anyio.fail_after(50):
        async with Client(server, mode=mode) as client:
            assert client.session.protocol_version == MODES[mode]
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["tracker_api", "sortie_status", "workspace_history", "greet", "raises"]
            assert tools["tracker_api"].input_schema["additionalProperties"] is False

            found = await client.call_tool("tracker_api", {"operation": "fetch_issue", "issue_id": "abc123"})
            assert text_of(found)["data"]["identifier"] == "PROJ-42"
            assert found.structured_content == text_of(found)
            assert not found.is_error

            refused = await client.call_tool("tracker_api", {"operation": "nonsense"})
            assert refused.is_error
            assert text_of(refused)["error"]["kind"] == "unsupported_operation"

            assert text_of(await client.call_tool("sortie_status", {}))["turns_remaining"] == 17
            assert len(text_of(await client.call_tool("workspace_history", {}))["entries"]) == 2
            assert text_of(await client.call_tool("greet", {"name": "you"}))["hello"] == "you"
            assert (await client.call_tool("raises", {})).is_error

            with pytest.raises(MCPError, match="Unknown tool: no_such_tool"):
                await client.call_tool("no_such_tool", {})
            assert text_of(await client.call_tool("sortie_status", {}))["max_turns"] == 20


@pytest.mark.parametrize("mode", MODES)
async def test_twenty_calls_of_one_client_are_answered(server, mode):
    answers = []

    async def call(client):
        answers.append(text_of(await client.call_tool("sortie_status", {}))["max_turns"])

    with anyio.fail_after(50):
        async with Client(server, mode=mode) as client, anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(call, client)
    assert answers == [20] * 20


async def test_a_call_the_client_gives_up_is_cancelled_and_the_session_goes_on(project, tmp_path):
    command, *arguments = project.command()
    variables = project.environment(SORTIE_TOOL_PLUGINS="waits=team_tools:waits")
    server = StdioServerParameters(command=command, args=arguments, env=variables)
    began = tmp_path / "began"
    with anyio.fail_after(50):
        async with Client(stdio_client(server), mode="legacy") as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "waits", {"began": str(began)})
                while not began.exists():
                    await anyio.sleep(0.01)
                group.cancel_scope.cancel()
            assert text_of(await client.call_tool("sortie_status", {}))["max_turns"] == 20
            while not any(tool == "waits" for tool, _ in project.counted()):
                await anyio.sleep(0.01)
