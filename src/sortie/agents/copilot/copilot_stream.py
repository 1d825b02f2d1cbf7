"""What `copilot --output-format json` says: its events, their meaning, and when a success is none. Pure.

The events of the session as they happen, then one `result` with the exit code. What it leaves out, the model calls
with their tokens and the way they ended, comes from where the adapter says (`copilot_journal`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from ...errors import AgentError
from ..agent import AgentEvent, ErrorReported, LimitReported, ToolFinished, ToolStarted
from ..error_kinds import classify_error, not_permitted
from ..reset_times import moment_of, reset_time
from ..turn_reader import TurnExit, TurnReader, decode, message_lines, program_lines, shorten
from .copilot_journal import ModelCall

# The journal is looked into where a call has just been recorded, or will never be.
_COUNT_AT = frozenset(("assistant.turn_start", "tool.execution_complete", "assistant.idle", "abort", "result"))
_NO_TOOLS = frozenset(("failed", "needs-auth", "disabled", "not_configured"))
# Copilot does not tell how long a provider asks it to wait, and would wait five times that long without a word.
_LIMIT_TIMEOUT = 30.0
_SIGNED_OUT = ("No authentication information", "Classic Personal Access Tokens")
_REFUSED_OPTIONS = (
    "error: unexpected argument",
    "error: the argument",
    "error: invalid value",
    "from --model flag is not available",
    "providers require an explicit model",
    "requires a local model provider",
    "No such agent",
)


class _CopilotEvent(Struct, frozen=True, rename="camel"):
    type: str = ""
    agent_id: str | None = None
    timestamp: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"{}")


class _CopilotServer(Struct, frozen=True, rename="camel"):
    """In a list it has a `name`, alone a `server_name`."""

    name: str = ""
    server_name: str = ""
    status: str = ""
    error: str | None = None


class _ServersLoaded(Struct, frozen=True):
    servers: list[_CopilotServer] = []


class _CopilotMessage(Struct, frozen=True):
    content: str = ""
    model: Any = None


class _ToolStart(Struct, frozen=True, rename="camel"):
    tool_call_id: str = ""
    tool_name: str = "tool"
    arguments: Any = None


class _ToolError(Struct, frozen=True):
    message: str = ""
    code: str | None = None


class _ToolEnd(Struct, frozen=True, rename="camel"):
    success: bool
    tool_call_id: str = ""
    error: _ToolError | None = None
    result: dict[str, Any] | None = None


class _Quota(Struct, frozen=True, rename="camel"):
    has_quota: bool | None = None
    remaining_percentage: float | None = None
    reset_date: str | None = None

    @property
    def exhausted(self) -> bool:
        return self.has_quota is False or self.remaining_percentage == 0


class _CallFailure(Struct, frozen=True, rename="camel"):
    status_code: int | None = None
    error_message: str | None = None
    failure_kind: str = ""
    retry_attempt: int = 0
    quota_snapshots: dict[str, _Quota] | None = None


class _Switch(Struct, frozen=True, rename="camel"):
    retry_after_seconds: float | None = None


class _CopilotError(Struct, frozen=True, rename="camel"):
    message: str = ""
    error_type: str = ""
    status_code: int | None = None


class _Notice(Struct, frozen=True):
    message: str = ""
    reason: str = ""


class _CopilotResult(Struct, frozen=True, rename="camel"):
    exit_code: int
    session_id: str


class CopilotReader(TurnReader):
    """`fresh_calls` gives the model calls recorded since it was last asked."""

    def __init__(self, session_id: str = "", fresh_calls: Callable[[], list[ModelCall]] = list) -> None:
        super().__init__(session_id)
        self._fresh_calls = fresh_calls
        self._broken: set[str] = set()
        self._limited_since: float | None = None
        self._unreachable = False
        self._error: _CopilotError | None = None
        self._aborted = ""
        self._answered = False
        self._counted = False
        self._finish = ""

    def events(self, line: bytes) -> Iterator[AgentEvent]:
        event = decode(line, _CopilotEvent)
        yield from self._event(event)
        if event.type in _COUNT_AT:
            yield from self._count()
        if event.type == "result":
            yield from self._result(decode(line, _CopilotResult))

    def _event(self, event: _CopilotEvent) -> Iterator[AgentEvent]:
        match event.type:
            case "session.mcp_server_status_changed":
                yield from self._server(decode(event.data, _CopilotServer))
            case "session.mcp_servers_loaded":
                for server in decode(event.data, _ServersLoaded).servers:
                    yield from self._server(server)
            case "assistant.message":
                message = decode(event.data, _CopilotMessage)
                yield from message_lines(message.content)
                if event.agent_id is None:
                    self.works_with(message.model)
                    self._answered, self._error, self._limited_since = True, None, None
            case "tool.execution_start":
                start = decode(event.data, _ToolStart)
                self.tools[start.tool_call_id] = start.tool_name
                yield ToolStarted(start.tool_name, shorten(start.arguments))
            case "tool.execution_complete":
                yield self._tool_end(decode(event.data, _ToolEnd))
            case "model.call_failure":
                yield self._call_failure(decode(event.data, _CallFailure), moment_of(event.timestamp or ""))
            case "auto_mode_switch.requested":
                wait = decode(event.data, _Switch).retry_after_seconds
                if wait is not None:
                    self.limit_until = time.time() + wait
                yield LimitReported("the model's rate limit", self.limit_until)
            case "session.error":
                error = decode(event.data, _CopilotError)
                if event.agent_id is None:
                    self._error = error
                yield ErrorReported(shorten(error.message, 600))
            case "session.warning":
                yield from program_lines(decode(event.data, _Notice).message)
            case "abort":
                self._aborted = decode(event.data, _Notice).reason or "no reason given"

    def explain_exit(self, ending: TurnExit) -> AgentError | None:
        said = ending.stderr
        if self._aborted:
            return self._cancelled()
        if "No session" in said and "matched" in said:
            return AgentError(AgentError.SESSION, f"Copilot does not know the session: {shorten(said)}")
        if "could not be validated" in said:
            return AgentError(AgentError.PROVIDER, shorten(said, 600))
        if any(mark in said for mark in _SIGNED_OUT):
            fix = "Set COPILOT_GITHUB_TOKEN to a fine-grained token, or run `copilot login`."
            return AgentError(AgentError.AUTH, shorten(said, 300), fix=fix)
        if any(mark in said for mark in _REFUSED_OPTIONS):
            return AgentError(AgentError.CONFIG, f"Copilot refuses its options: {shorten(said, 600)}")
        return None

    def _server(self, server: _CopilotServer) -> Iterator[AgentEvent]:
        name = server.name or server.server_name
        if server.status in _NO_TOOLS and name not in self._broken:
            self._broken.add(name)
            detail = f"The MCP server {name} is {server.status}: {shorten(server.error or 'no reason given')}"
            yield from self.server_failed(name, detail)

    def _tool_end(self, end: _ToolEnd) -> ToolFinished:
        name = self.tools.pop(end.tool_call_id, "tool")
        if end.success:
            return ToolFinished(name, detail=shorten((end.result or {}).get("content", "")))
        error = end.error or _ToolError()
        if error.code == "denied":
            self.denied.add(name)
        return ToolFinished(name, failed=True, detail=shorten(error.message))

    def _call_failure(self, failure: _CallFailure, now: float | None) -> AgentEvent:
        said = failure.error_message or failure.failure_kind
        detail = f"model call {failure.retry_attempt + 1} failed: {failure.status_code or ''} {shorten(said)}"
        self._unreachable = failure.failure_kind == "transport"
        resets = [
            moment
            for quota in (failure.quota_snapshots or {}).values()
            if quota.exhausted and (moment := moment_of(quota.reset_date or ""))
        ]
        if failure.status_code != 429 and not resets:
            return ErrorReported(detail)
        self.limit_until = max(resets) if resets else reset_time(said)
        if now is not None:
            self._limited_since = self._limited_since or now
            if now - self._limited_since > _LIMIT_TIMEOUT:
                self.failure = AgentError(AgentError.RATE_LIMITED, detail, until=self.limit_until)
        return LimitReported(detail, self.limit_until)

    def _count(self) -> Iterator[AgentEvent]:
        for call in self._fresh_calls():
            self._counted = True
            if not call.by_subagent:
                self._finish = call.finish
            yield from self.meter.add(call.usage)

    def _result(self, result: _CopilotResult) -> Iterator[AgentEvent]:
        self.session_id = result.session_id
        if self._answered and not self._counted:
            yield ErrorReported(
                "Copilot's journal of this session tells no tokens; the turn is counted without them."
            )
        yield from self.end_turn(self._false_success(result.exit_code))

    def _false_success(self, exit_code: int) -> AgentError | None:
        if self._aborted:
            return self._cancelled()
        if self._finish == "content_filter":
            return AgentError(AgentError.REFUSED, "The model declined, or its provider cut its answer off.")
        if self._error:
            return self._fault(self._error)
        if exit_code != 0:
            return AgentError(AgentError.TURN_FAILED, f"Copilot ended its turn with exit code {exit_code}.")
        if not self._answered:
            return AgentError(AgentError.TURN_FAILED, "Copilot ended its turn without an answer of the model.")
        if self._finish == "length":
            return AgentError(AgentError.TURN_FAILED, "The answer of the model was cut off at its length limit.")
        fix = "Change copilot-cli.allow_tools or copilot-cli.deny_tools, or hide it with excluded_tools."
        return not_permitted("Copilot", self.denied, fix)

    def _fault(self, error: _CopilotError) -> AgentError:
        said = shorten(error.message, 600)
        match error.error_type:
            case "authentication" | "authorization" | "policy":
                return AgentError(AgentError.AUTH, said, fix="Log the agent in, or give it a key that works.")
            case "rate_limit" | "quota":
                return AgentError(AgentError.RATE_LIMITED, said, until=self.limit_until or reset_time(said))
        if error.status_code == 404:
            return AgentError(AgentError.CONFIG, said, fix="Correct copilot-cli.model or COPILOT_MODEL.")
        if error.status_code is None and self._unreachable:
            return AgentError(AgentError.PROVIDER, said)
        return classify_error(said, status=error.status_code, until=self.limit_until)

    def _cancelled(self) -> AgentError:
        return AgentError(AgentError.CANCELLED, f"Copilot's turn was interrupted ({self._aborted}).")
