"""Reads one prompt of the Agent Client Protocol: the updates that come during it, the answer that ends it. Pure.

Only the answer to `session/prompt` makes a turn finished, and not every `end_turn` is a success: some agents tell
an error of their provider as text of theirs and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from ...core.model import Usage
from ...errors import AgentError
from ..agent import AgentEvent, ErrorReported, LimitReported, ToolFinished, ToolStarted
from ..error_kinds import not_permitted
from ..jsonrpc import Message, ResponseError
from ..turn_reader import ALIVE, NOTHING_USED, Meter, TurnReader, decode, program_lines, readable, shorten
from . import acp_messages as messages
from .acp_agents import UNKNOWN, KnownAgent, classify_response, classify_text

A = TypeVar("A", bound=Struct)

_STARTUP = "mcp_startup."
_STOPPED = {
    "refusal": (AgentError.REFUSED, "The model declined to answer."),
    "cancelled": (AgentError.CANCELLED, "The turn was cancelled."),
    "max_tokens": (AgentError.TURN_FAILED, "The turn ended at a limit of tokens, half-way."),
    "max_turn_requests": (AgentError.TURN_FAILED, "The turn ended at a limit of requests, half-way."),
}


class RunningTotals(Struct, frozen=True):
    """What running totals stood at: the tokens of this process, and the cost of the whole conversation."""

    tokens: Usage = NOTHING_USED
    cost: float = 0.0


FROM_NOTHING = RunningTotals()


class AcpReader(TurnReader):
    def __init__(
        self, agent: KnownAgent = UNKNOWN, session_id: str = "", running: RunningTotals = FROM_NOTHING
    ) -> None:
        super().__init__(session_id)
        self.running = running
        if agent.cumulative:
            self.meter = Meter(running.tokens)
        self._agent = agent
        self._message_id: str | None = None
        self._program_error = ""
        self._silent_since_tool = True
        self._unstarted: dict[str, messages.AcpToolCall] = {}

    def events(self, line: bytes) -> Iterator[AgentEvent]:
        return self._notified(decode(line, Message))

    def read_message(self, message: Message) -> list[AgentEvent]:
        """As `read`, for a line that has been decoded already."""
        return readable(self._notified(message))

    def answered(self, result: Raw) -> list[AgentEvent]:
        """The answer to the prompt: the end of the turn."""
        return readable(self._answered(result))

    def rejected(self, error: ResponseError) -> list[AgentEvent]:
        """The prompt was answered with an error: the end of the turn too."""
        return [*self.end_of_message(), *self.end_turn(classify_response(error, self.limit_until))]

    def permission(self, call: messages.AcpToolCall, *, granted: bool) -> list[AgentEvent]:
        """The agent asked whether it may use a tool, and was answered."""
        if not granted:
            self.denied.add(call.called)
        return [*self._started(call)] or [ALIVE]

    def _notified(self, message: Message) -> Iterator[AgentEvent]:
        if self.finished or message.method != "session/update":
            return
        params = decode(message.params, messages.UpdateParams)
        if self.session_id and params.session_id != self.session_id:
            return
        update = params.update
        match decode(update, messages.UpdateHead).session_update:
            case "agent_message_chunk":
                yield from self._chunk(decode(update, messages.Chunk))
            case "tool_call" | "tool_call_update":
                yield from self._tool(decode(update, messages.AcpToolCall))
            case "usage_update":
                yield from self._spent(decode(update, messages.UsageUpdate))
            case "session_info_update":
                yield from self._retry(decode(update, messages.Extended).beyond_protocol("codex", "error"))

    def _chunk(self, chunk: messages.Chunk) -> Iterator[AgentEvent]:
        text = chunk.content.text
        self.works_with(chunk.beyond_protocol("_claude/model"))
        if chunk.beyond_protocol("claudeCode", "kind") == "mcpServerStatus":
            if chunk.beyond_protocol("claudeCode", "status") == "failed":
                server = str(chunk.beyond_protocol("claudeCode", "server"))
                yield from self.server_failed(server, f"The MCP server {server} did not start: {text}")
        elif self._agent.is_program_text(text, chunk.message_id):
            yield from self.end_of_message()
            failed = self._agent.is_failure(text, alone=self._silent_since_tool)
            self._program_error = text if failed else ""
            yield from program_lines(text)
        elif text:
            if chunk.message_id != self._message_id:
                yield from self.end_of_message()
            self._message_id = chunk.message_id
            self._program_error, self._silent_since_tool = "", False
            yield from self.message_piece(text)

    def _tool(self, call: messages.AcpToolCall) -> Iterator[AgentEvent]:
        yield from self.end_of_message()
        if call.tool_call_id.startswith(_STARTUP) and call.status == "failed":
            server = call.tool_call_id.split(".")[1]
            said = _text_of(call.content)
            yield from self.server_failed(server, f"The MCP server {server} did not start: {said}")
            return
        self._program_error, self._silent_since_tool = "", True
        known = call.tool_call_id in self.tools or call.tool_call_id in self._unstarted
        if call.raw_input or call.status in ("completed", "failed") or known:
            yield from self._started(call)
        else:
            self._unstarted[call.tool_call_id] = call  # its arguments follow
        if call.status in ("completed", "failed"):
            name = self.tools.pop(call.tool_call_id, call.called)
            detail = _text_of(call.content) or (shorten(call.raw_output) if call.raw_output else "")
            yield ToolFinished(name, failed=call.status == "failed", detail=detail)

    def _started(self, call: messages.AcpToolCall) -> Iterator[AgentEvent]:
        if call.tool_call_id in self.tools:
            return
        first = self._unstarted.pop(call.tool_call_id, call)
        name = self.tools[call.tool_call_id] = first.called
        arguments = call.raw_input or first.raw_input
        yield ToolStarted(name, shorten(arguments or call.title or first.title or ""))

    def _spent(self, spent: messages.UsageUpdate) -> Iterator[AgentEvent]:
        limit = spent.beyond_protocol("_claude/rateLimit")
        if isinstance(limit, dict) and limit.get("status") not in (None, "allowed"):
            ends = limit.get("resetsAt")
            until = float(ends) if isinstance(ends, int | float) else None
            if limit["status"] == "rejected":
                self.limit_until = until
            yield LimitReported(f"{limit.get('rateLimitType') or 'rate'} limit: {limit['status']}", until)
        if spent.cost and spent.cost.currency == "USD":
            before, amount = self.running.cost, spent.cost.amount
            self.running = RunningTotals(self.running.tokens, amount)
            if amount > before:
                yield from self.meter.add(Usage(cost_usd=amount - before))

    def _retry(self, error: Any) -> Iterator[AgentEvent]:
        """codex-acp tells of a failed request that it will repeat."""
        if not isinstance(error, dict):
            return
        detail = shorten(f"{error.get('message') or ''} {error.get('additionalDetails') or ''}")
        if classify_text(self._agent, detail).kind == AgentError.RATE_LIMITED:
            yield LimitReported(detail)
        else:
            yield ErrorReported(detail)

    def _answered(self, result: Raw) -> Iterator[AgentEvent]:
        yield from self.end_of_message()
        stop_reason = _decoded(result, messages.Stopped()).stop_reason
        answer = _decoded(result, messages.Counted())
        counted = answer.as_usage()
        self.works_with(answer.model)
        yield from self.meter.reach(counted) if self._agent.cumulative else self.meter.add(counted)
        if self._agent.cumulative and counted != NOTHING_USED:
            self.running = RunningTotals(counted, self.running.cost)
        yield from self.end_turn(self._false_success(stop_reason, counted))

    def _false_success(self, stop_reason: str, counted: Usage) -> AgentError | None:
        fix = "Set acp.permissions to allow, or acp.mode to one in which it does not ask."
        if denial := not_permitted("The agent", self.denied, fix):
            return denial
        if stop_reason != "end_turn":
            unknown = (AgentError.TURN_FAILED, f"The turn ended for no reason that we know: {stop_reason!r}.")
            return AgentError(*_STOPPED.get(stop_reason, unknown))
        if self._program_error:
            return classify_text(self._agent, self._program_error)
        if self._agent.hides_broken_answers and (self._silent_since_tool or counted == NOTHING_USED):
            return AgentError(AgentError.PROVIDER, "The model's answer broke off.")
        return None


def _decoded(answer: Raw, otherwise: A) -> A:
    try:
        return decode(answer, type(otherwise))
    except msgspec.DecodeError:
        return otherwise


def _text_of(content: Any) -> str:
    """The text in the content of a tool call."""
    blocks = content if isinstance(content, list) else []
    texts = [messages.member(block, "content", "text") for block in blocks]
    return shorten(" ".join(text for text in texts if isinstance(text, str)))
