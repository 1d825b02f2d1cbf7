"""An agent with the official MCP client: starts the server exactly as its configuration says, then does its steps.

    python mcp_agent.py '[["tools"], ["call", "sortie_status", {}], ["kill"], ["shell", "rm -r build"]]'

Each step leaves one JSON line in `$DIARY`: what it got back. The server gets the environment of its configuration
and nothing else of ours but what the client always passes on, such as PATH.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

DEADLINE = 40.0


async def main(steps: list[list[Any]]) -> None:
    with anyio.fail_after(DEADLINE):
        async with Client(_server(), mode="auto") as client:
            for verb, *arguments in steps:
                _note(await _perform(client, verb, arguments))


def _server() -> StdioServerParameters:
    config = json.loads(Path(os.environ["SORTIE_MCP_CONFIG"]).read_bytes())
    entry = config["mcpServers"]["sortie-tools"]
    return StdioServerParameters(command=entry["command"], args=entry["args"], env=entry["env"])


async def _perform(client: Client, verb: str, arguments: list[Any]) -> Any:
    match verb:
        case "tools":
            return {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        case "call":
            name, order = arguments
            return await _call(client, name, order)
        case "kill":
            return await anyio.to_thread.run_sync(_kill_server)
        case "shell":
            return await anyio.to_thread.run_sync(_shell, arguments[0])
    raise ValueError(verb)


async def _call(client: Client, name: str, order: dict[str, Any]) -> Any:
    try:
        (block,) = (await client.call_tool(name, order)).content
    except Exception as error:
        return {"lost": type(error).__name__}  # what any client says when its server is gone, each in its way
    assert block.type == "text"
    return json.loads(block.text)


def _kill_server() -> int:
    """Ends the only child we have, and waits until it is dead."""
    (pid,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    descriptor = os.pidfd_open(int(pid))
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    select.select([descriptor], [], [], DEADLINE)
    os.close(descriptor)
    return int(pid)


def _shell(command: str) -> int:
    return subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, check=False).returncode


def _note(answer: Any) -> None:
    with Path(os.environ["DIARY"]).open("a") as diary:
        diary.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
