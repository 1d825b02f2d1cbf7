"""Our tools and the operator's MCP servers in the form in which the Agent Client Protocol wants them."""

from __future__ import annotations

from typing import Any

from ..agent import SessionOrder
from ..mcp_servers import read_servers
from .acp_agents import KnownAgent
from .acp_messages import McpCapabilities


def servers_for(
    order: SessionOrder, capabilities: McpCapabilities, agent: KnownAgent
) -> tuple[list[dict[str, Any]], list[str]]:
    """The servers that the agent takes, and a sentence for each that it does not."""
    servers: list[dict[str, Any]] = []
    left_out: list[str] = []
    for name, server in read_servers(order).items():
        kind = server.type or ("http" if server.url else "stdio")
        if kind == "stdio" and agent.mcp_argument:
            left_out.append(
                f"The agent takes no MCP server like {name} from its client; add "
                f'`{agent.mcp_argument} @"$SORTIE_MCP_CONFIG"` to agent.command.'
            )
        elif kind == "stdio":
            servers.append(
                {"name": name, "command": server.command, "args": server.args, "env": _pairs(server.env)}
            )
        elif (kind == "http" and capabilities.http) or (kind == "sse" and capabilities.sse):
            servers.append({"type": kind, "name": name, "url": server.url, "headers": _pairs(server.headers)})
        else:
            left_out.append(f"The agent takes no {kind} servers; the MCP server {name} is left out.")
    return servers, left_out


def _pairs(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]
