"""The MCP servers that a session is given, ours and the operator's: read from the file that leads to them.

Each agent wants them in a form of its own; what they are is the same for all.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from ..errors import AgentError
from ..protocol.safefiles import open_directory, read_bounded
from .agent import SessionOrder

_SIZE_LIMIT = 4 * 1024 * 1024

Entry = dict[str, Any]


class McpServer(Struct, frozen=True):
    """One server: `command` for one that the agent starts, `url` for one that it calls."""

    type: str = ""
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}


class _Config(Struct, frozen=True):
    servers: dict[str, Entry] = field(name="mcpServers", default={})


def read_entries(order: SessionOrder) -> dict[str, Entry]:
    """The entries of the file as they are; raises `AgentError` where it cannot be read."""
    if order.mcp_config is None:
        return {}
    try:
        with open_directory(order.mcp_config.parent) as directory:
            text = read_bounded(directory, order.mcp_config.name, _SIZE_LIMIT)
        return msgspec.json.decode(text, type=_Config).servers
    except (OSError, msgspec.DecodeError) as error:
        raise _unreadable(order, error) from error


def read_servers(order: SessionOrder) -> dict[str, McpServer]:
    """The same, understood."""
    try:
        return {name: msgspec.convert(entry, McpServer) for name, entry in read_entries(order).items()}
    except msgspec.ValidationError as error:
        raise _unreadable(order, error) from error


def _unreadable(order: SessionOrder, error: Exception) -> AgentError:
    return AgentError(AgentError.TOOLS, f"The list of MCP servers, {order.mcp_config}, cannot be read: {error}.")
