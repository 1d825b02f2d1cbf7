"""The notifications of `codex app-server` that we read, with those of their fields that matter. Pure."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from ...core.model import Usage
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
    """A tool at work, or a message. Read loosely: it is for the log, and each version brings new kinds."""

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


class TokenCounts(Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0

    def as_usage(self) -> Usage:
        """The input has its cached part in it already, and the output its reasoning."""
        return Usage(self.input_tokens, self.output_tokens, self.cached_input_tokens)

    def less(self, other: TokenCounts) -> Usage:
        return Usage(
            max(self.input_tokens - other.input_tokens, 0),
            max(self.output_tokens - other.output_tokens, 0),
            max(self.cached_input_tokens - other.cached_input_tokens, 0),
        )


class TokenUsage(Struct, frozen=True):
    total: TokenCounts
    last: TokenCounts = TokenCounts()


class TokensEvent(Struct, frozen=True, rename="camel"):
    thread_id: str
    token_usage: TokenUsage
    turn_id: str = ""


class TurnError(Struct, frozen=True, rename="camel"):
    message: str = ""
    codex_error_info: Any = None
    additional_details: str | None = None


class ErrorEvent(Struct, frozen=True, rename="camel"):
    thread_id: str
    error: TurnError
    will_retry: bool = False


class CodexTurn(Struct, frozen=True):
    id: str
    status: str = ""
    error: TurnError | None = None


class TurnEvent(Struct, frozen=True, rename="camel"):
    thread_id: str
    turn: CodexTurn


class ItemEvent(Struct, frozen=True, rename="camel"):
    thread_id: str
    item: Item


class LimitWindow(Struct, frozen=True, rename="camel"):
    used_percent: float = 0.0
    resets_at: float | None = None


class AccountLimits(Struct, frozen=True):
    primary: LimitWindow | None = None
    secondary: LimitWindow | None = None


class LimitEvent(Struct, frozen=True, rename="camel"):
    rate_limits: AccountLimits


class ServerEvent(Struct, frozen=True, rename="camel"):
    name: str
    status: str
    thread_id: str | None = None
    error: str | None = None


class CodexNotice(Struct, frozen=True):
    message: str = ""
    summary: str = ""
