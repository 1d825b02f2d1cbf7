"""What `claude --output-format stream-json` says: its events, their meaning, and when a success is none. Pure.

`system/init`, then `assistant` and `user` messages block by block, then one `result` with the totals of the
process.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from msgspec import Struct, field

from ...core.model import Usage
from ...errors import AgentError
from ..agent import AgentEvent, ErrorReported, LimitReported, ToolFinished, ToolStarted
from ..error_kinds import classify_error, not_permitted
from ..turn_reader import NOTHING_USED, TurnExit, TurnReader, beyond, decode, message_lines, shorten

_WORTH_WAITING_MS = 60_000.0

# Whose word it is where Claude Code itself speaks in the place of its model.
_NO_MODEL = "<synthetic>"
_SHOWN = 300
_ABORTED = ("aborted_streaming", "aborted_tools")


class _ClaudeHead(Struct, frozen=True):
    type: str = ""
    subtype: str = ""


class _ClaudeServer(Struct, frozen=True):
    name: str = ""
    status: str = ""


class _ClaudeInit(Struct, frozen=True):
    session_id: str
    mcp_servers: list[_ClaudeServer] = []
    model: Any = None


class _Retry(Struct, frozen=True):
    attempt: int = 0
    error_status: int | None = None
    error: Any = None
    retry_delay_ms: float = 0.0


class _Usage(Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0

    def as_usage(self, cost: float = 0.0) -> Usage:
        """With what was read from the cache and written to it as part of the input."""
        read = self.cache_read_input_tokens or 0
        written = self.cache_creation_input_tokens or 0
        return Usage(self.input_tokens + read + written, self.output_tokens, read, cost)


class _ModelUsage(Struct, frozen=True):
    """What one model was used for, sub-agents included."""

    input: int = field(default=0, name="inputTokens")
    output: int = field(default=0, name="outputTokens")
    read: int = field(default=0, name="cacheReadInputTokens")
    written: int = field(default=0, name="cacheCreationInputTokens")
    cost: float = field(default=0.0, name="costUSD")

    def as_usage(self) -> Usage:
        return Usage(self.input + self.read + self.written, self.output, self.read, self.cost)


class _Block(Struct, frozen=True):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class _ClaudeMessage(Struct, frozen=True):
    id: str = ""
    model: str = ""
    content: list[_Block] | str = []
    usage: _Usage | None = None


class _Turn(Struct, frozen=True):
    """A message of a sub-agent names the tool use in which it works."""

    message: _ClaudeMessage
    error: str | None = None
    parent_tool_use_id: Any = None


class _LimitInfo(Struct, frozen=True, rename="camel"):
    status: str = ""
    resets_at: float | None = None
    rate_limit_type: str | None = None


class _LimitEvent(Struct, frozen=True):
    rate_limit_info: _LimitInfo


class _Denial(Struct, frozen=True):
    tool_name: str = "a tool"


class _ClaudeResult(Struct, frozen=True):
    subtype: str
    is_error: bool
    session_id: str = ""
    result: str = ""
    errors: list[Any] = []
    stop_reason: str | None = None
    terminal_reason: str | None = None
    api_error_status: int | None = None
    usage: _Usage = _Usage()
    total_cost_usd: float = 0.0
    queued_turn_count: int = 0
    model_usage_since_last_result: dict[str, _ModelUsage] | None = None
    permission_denials: list[_Denial] = []

    def spent(self) -> Usage:
        """By this process. Where it is told by model, `total_cost_usd` counts from the session's first turn on."""
        if self.model_usage_since_last_result is None:
            return self.usage.as_usage(self.total_cost_usd)
        models = (model.as_usage() for model in self.model_usage_since_last_result.values())
        return reduce(Usage.plus, models, Usage())


class ClaudeReader(TurnReader):
    def __init__(self, session_id: str = "") -> None:
        super().__init__(session_id)
        self._counted: dict[str, Usage] = {}
        self._last_sentence = ""
        self._error_name = ""
        self._spent = Usage()
        self._seen_init = False

    def events(self, line: bytes) -> Iterator[AgentEvent]:
        head = decode(line, _ClaudeHead)
        match head.type:
            case "system" if head.subtype == "init":
                yield from self._init(decode(line, _ClaudeInit))
            case "system" if head.subtype == "api_retry":
                yield from self._retry(decode(line, _Retry))
            case "assistant":
                yield from self._assistant(decode(line, _Turn))
            case "user":
                yield from self._tool_results(decode(line, _Turn))
            case "rate_limit_event":
                yield from self._limit(decode(line, _LimitEvent).rate_limit_info)
            case "result":
                yield from self._result(decode(line, _ClaudeResult))

    def explain_exit(self, ending: TurnExit) -> AgentError | None:
        if "cannot be used with root" in ending.stderr:
            return AgentError(
                AgentError.CONFIG,
                "Claude Code does not skip permissions for root.",
                fix="Run as another user, set IS_SANDBOX=1 where the machine is a sandbox, "
                "or set claude-code.permission_mode.",
            )
        if "No conversation found" in ending.stderr or "already in use" in ending.stderr:
            return AgentError(AgentError.SESSION, ending.stderr.strip()[-300:])
        if "error: unknown option" in ending.stderr or "error: option" in ending.stderr:
            return AgentError(AgentError.CONFIG, f"Claude Code refuses its options: {ending.stderr.strip()[-300:]}")
        return None

    def _init(self, init: _ClaudeInit) -> Iterator[AgentEvent]:
        self._seen_init = True
        self.session_id = init.session_id
        self.works_with(init.model)
        for server in init.mcp_servers:
            if server.status == "failed":
                yield from self.server_failed(server.name, f"The MCP server {server.name} did not start.")

    def _retry(self, retry: _Retry) -> Iterator[AgentEvent]:
        detail = f"attempt {retry.attempt} failed: {retry.error_status or 'no status'}, {shorten(retry.error)}"
        if retry.error_status != 429:
            yield ErrorReported(detail)  # also a refused key: it may have a fresh one the next time
            return
        # When it tries again is its own decision, and says nothing about the limit.
        yield LimitReported(detail, self.limit_until)
        if retry.retry_delay_ms > _WORTH_WAITING_MS:
            self.failure = AgentError(AgentError.RATE_LIMITED, detail, until=self.limit_until)

    def _assistant(self, turn: _Turn) -> Iterator[AgentEvent]:
        message = turn.message
        self._error_name = turn.error or ""
        # A fallback answers under its own name; the first told may have its context window behind it.
        if not turn.parent_tool_use_id and message.model not in (_NO_MODEL, self.model.partition("[")[0]):
            self.works_with(message.model)
        for block in message.content if isinstance(message.content, list) else ():
            if block.type == "text":
                self._last_sentence = "" if message.model == _NO_MODEL else block.text
                yield from message_lines(block.text)
            elif block.type == "tool_use":
                self.tools[block.id] = block.name
                yield ToolStarted(block.name, shorten(block.input))
        if message.usage:
            # Each block of a message repeats the counts of the whole.
            counted = message.usage.as_usage()
            fresh = beyond(counted, self._counted.get(message.id, NOTHING_USED))
            self._counted[message.id] = counted
            yield from self.meter.add(fresh, cost_follows=True)

    def _tool_results(self, turn: _Turn) -> Iterator[AgentEvent]:
        content = turn.message.content
        for block in content if isinstance(content, list) else ():
            if block.type == "tool_result":
                name = self.tools.pop(block.tool_use_id, "tool")
                yield ToolFinished(name, failed=bool(block.is_error), detail=shorten(block.content))

    def _limit(self, info: _LimitInfo) -> Iterator[AgentEvent]:
        if info.status in ("", "allowed"):
            return
        if info.status == "rejected":
            self.limit_until = info.resets_at
        yield LimitReported(f"{info.rate_limit_type or 'rate'} limit: {info.status}", info.resets_at)

    def _result(self, result: _ClaudeResult) -> Iterator[AgentEvent]:
        # With tasks in the background there is a result for each time the model was woken.
        self.finished = not result.queued_turn_count
        self._spent = self._spent.plus(result.spent())
        yield from self.meter.reach(self._spent)
        self.failure = self.failure or self._false_success(result)

    def _false_success(self, result: _ClaudeResult) -> AgentError | None:
        said = result.result or " ".join(shorten(error) for error in result.errors) or result.subtype
        if result.subtype == "error_during_execution" and not self._seen_init and "No conversation found" in said:
            return AgentError(AgentError.SESSION, said)
        if result.terminal_reason in _ABORTED:
            return AgentError(
                AgentError.CANCELLED, f"Claude Code's turn was interrupted ({result.terminal_reason})."
            )
        if result.is_error or result.subtype != "success":
            if result.api_error_status is None and result.result and result.result == self._last_sentence:
                return AgentError(AgentError.TURN_FAILED, said[:_SHOWN])  # the model's words report no error
            status, until = result.api_error_status, self.limit_until
            return classify_error(said, status=status, until=until, name=self._error_name)
        if result.stop_reason == "refusal":
            return AgentError(AgentError.REFUSED, f"The model declined: {said[:_SHOWN]}")
        denied = [denial.tool_name for denial in result.permission_denials]
        return not_permitted("Claude Code", denied, "Set claude-code.permission_mode or claude-code.allowed_tools.")
