"""The items of a Codex thread that are tools at work: what they are called, and how they ended. Pure.

Items are read loosely. They are for the log, new ones appear with each version, and none of them ends a turn.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from ..turn_reader import shorten

# What each kind of tool was asked to do stands in this field.
_REQUESTS = {
    "commandExecution": "command",
    "fileChange": "changes",
    "mcpToolCall": "arguments",
    "dynamicToolCall": "arguments",
    "collabAgentToolCall": "prompt",
    "webSearch": "query",
    "imageView": "path",
}
_DENIED = re.compile(r"requires approval|rejected MCP tool call")


class Item(Struct, frozen=True, rename="camel"):
    type: str = ""
    status: Any = None
    text: Any = ""
    tool: Any = ""
    server: Any = ""
    command: Any = ""
    changes: Any = ""
    arguments: Any = ""
    prompt: Any = ""
    query: Any = ""
    path: Any = ""
    aggregated_output: Any = None
    result: Any = None
    error: Any = None

    @property
    def is_tool(self) -> bool:
        return self.type in _REQUESTS

    @property
    def name(self) -> str:
        if self.type == "mcpToolCall":
            return f"mcp__{shorten(self.server, 80)}__{shorten(self.tool, 80)}"
        return shorten(self.tool, 80) if self.tool else self.type

    @property
    def request(self) -> str:
        wanted = getattr(self, _REQUESTS[self.type])
        if self.type == "fileChange" and isinstance(wanted, list):
            return shorten(", ".join(str(change.get("path")) for change in wanted if isinstance(change, dict)))
        return shorten(wanted or "")

    @property
    def outcome(self) -> str:
        return shorten(self.error or self.aggregated_output or self.result or "")

    @property
    def failed(self) -> bool:
        return self.status in ("failed", "declined")

    @property
    def denied(self) -> bool:
        """Nobody was there to allow it; with other tools of a server it is only the message that tells."""
        refused = self.type == "mcpToolCall" and self.failed and bool(_DENIED.search(shorten(self.error)))
        return self.status == "declined" or refused
