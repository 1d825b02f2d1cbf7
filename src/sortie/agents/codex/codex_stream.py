"""What `codex app-server` says about a turn: its events, their meaning, and when a success is none. Pure.

The threads of sub-agents report on the same pipe: their tokens count, their final events do not. Token counts are
running totals of a thread, over all its turns and processes. An error is known by its name in Codex, then by its
HTTP status, then by its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ...core.model import Usage
from ...errors import AgentError
from ..agent import AgentEvent, ErrorReported, LimitReported, StderrLine, ToolFinished, ToolStarted
from ..error_kinds import classify_error, not_permitted
from ..jsonrpc import Message
from ..reset_times import reset_time
from ..turn_reader import Meter, TurnReader, beyond, decode, message_lines, readable, shorten

_DETAIL = 600

_NAMED = {
    "rateLimitExceeded": AgentError.RATE_LIMITED,
    "usageLimitExceeded": AgentError.RATE_LIMITED,
    "serverOverloaded": AgentError.PROVIDER,
    "internalServerError": AgentError.PROVIDER,
    "flexUnavailable": AgentError.PROVIDER,
    "policyCapacityUnavailable": AgentError.PROVIDER,
    "unauthorized": AgentError.AUTH,
    "modelNotFound": AgentError.CONFIG,
    "sandboxError": AgentError.CONFIG,
    "cyberPolicy": AgentError.REFUSED,
    "misalignmentPolicyViolation": AgentError.REFUSED,
    "tooManyDenials": AgentError.PERMISSION,
    # It would not fit the next time either.
    "contextWindowExceeded": AgentError.SESSION,
    "sessionBudgetExceeded": AgentError.SESSION,
}
_FIXES = {
    AgentError.AUTH: "Run `codex login`, or set CODEX_API_KEY to a key that works.",
    AgentError.CONFIG: "Correct the option of the codex block that it speaks of.",
}
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


class CodexReader(TurnReader):
    """`session_id` is the thread; where it is not known, the first thread that begins a turn is the one.

    `servers` has the status of each MCP server by (thread, name), and why it failed. `limited` is true while all
    that Codex does is to wait for a limit of the provider.
    """

    def __init__(self, session_id: str = "", meters: dict[str, Meter] | None = None) -> None:
        super().__init__(session_id)
        self.turn_id = ""
        self.limited = False
        self.servers: dict[tuple[str, str], tuple[str, str]] = {}
        self._meters = {} if meters is None else meters

    def following(self) -> CodexReader:
        """A reader for the next turn of this thread."""
        reader = CodexReader(self.session_id, self._meters)
        reader.limit_until = self.limit_until
        return reader

    def events(self, line: bytes) -> Iterator[AgentEvent]:
        yield from self.notified(decode(line, Message))

    def read_message(self, message: Message) -> list[AgentEvent]:
        """As `read`, for a line that has been decoded already."""
        return readable(self.notified(message))

    def notified(self, message: Message) -> Iterator[AgentEvent]:
        match message.method:
            case "turn/started":
                started = decode(message.params, TurnEvent)
                self.session_id = self.session_id or started.thread_id
                if started.thread_id == self.session_id:
                    self.turn_id = self.turn_id or started.turn.id
            case "item/started" | "item/completed":
                event = decode(message.params, ItemEvent)
                if event.thread_id == self.session_id:
                    self.limited = False
                    yield from self._item(event.item, begun=message.method == "item/started")
            case "thread/tokenUsage/updated":
                yield from self._tokens(decode(message.params, TokensEvent))
            case "account/rateLimits/updated":
                yield from self._limits(decode(message.params, LimitEvent).rate_limits)
            case "mcpServer/startupStatus/updated":
                yield from self._server(decode(message.params, ServerEvent))
            case "error":
                yield from self._error(decode(message.params, ErrorEvent))
            case "turn/completed":
                yield from self._completed(decode(message.params, TurnEvent))
            case "warning" | "configWarning" | "guardianWarning" | "deprecationNotice":
                notice = decode(message.params, CodexNotice)
                yield StderrLine(shorten(notice.message or notice.summary))

    def _item(self, item: Item, *, begun: bool) -> Iterator[AgentEvent]:
        if item.type == "agentMessage":
            if not begun:
                yield from message_lines(item.text if isinstance(item.text, str) else shorten(item.text))
        elif item.is_tool and begun:
            yield ToolStarted(item.name, item.request)
        elif item.is_tool:
            if item.denied:
                self.denied.add(item.name)
            outcome = item.error or item.aggregated_output or item.result or ""
            yield ToolFinished(item.name, failed=item.failed, detail=shorten(outcome))

    def _tokens(self, event: TokensEvent) -> Iterator[AgentEvent]:
        """The first report of a thread says where its total stood: a resumed one repeats what was used before."""
        total, last = event.token_usage.total.as_usage(), event.token_usage.last.as_usage()
        if event.thread_id not in self._meters:
            ours = event.thread_id == self.session_id
            of_earlier_turns = not self.turn_id or (ours and event.turn_id != self.turn_id)
            self._meters[event.thread_id] = Meter(total if of_earlier_turns else beyond(total, last))
        yield from self._meters[event.thread_id].reach(total)

    def _limits(self, limits: AccountLimits) -> Iterator[AgentEvent]:
        spent = [window for window in (limits.primary, limits.secondary) if window and window.used_percent >= 100]
        self.limit_until = max((window.resets_at or 0.0 for window in spent), default=0.0) or None
        if spent:
            yield LimitReported("The usage limit of the account is reached.", self.limit_until)

    def _server(self, event: ServerEvent) -> Iterator[AgentEvent]:
        self.servers[event.thread_id or "", event.name] = (event.status, event.error or "")
        if event.status == "failed":
            yield ErrorReported(
                f"The MCP server {event.name} did not start: {shorten(event.error or 'no reason given')}"
            )

    def _error(self, event: ErrorEvent) -> Iterator[AgentEvent]:
        if event.thread_id != self.session_id or self.decided or not event.will_retry:
            return  # an error that ends the turn comes again with its final event
        problem = event.error
        detail = problem.additional_details or problem.message  # the message only counts its attempts
        status = _status_of(problem.codex_error_info)
        if status == 401:
            self.failure = classify_codex_error(detail, problem.codex_error_info, self.limit_until)
        self.limited = status == 429 or problem.codex_error_info == "rateLimitExceeded"
        yield LimitReported(detail, self.limit_until) if self.limited else ErrorReported(detail)

    def _completed(self, event: TurnEvent) -> Iterator[AgentEvent]:
        ours = event.thread_id == self.session_id and event.turn.id == self.turn_id
        if ours and self.turn_id and not self.finished:
            yield from self.end_turn(self._false_success(event.turn))

    def _false_success(self, turn: CodexTurn) -> AgentError | None:
        if turn.status == "interrupted":
            return AgentError(AgentError.CANCELLED, "The turn was interrupted.")
        if turn.status != "completed" or turn.error:
            problem = turn.error or TurnError(f"The turn ended as {turn.status[:40] or 'nothing known'}.")
            return classify_codex_error(problem.message, problem.codex_error_info, self.limit_until)
        fix = "Set codex.approval_policy to never, or widen codex.thread_sandbox."
        return not_permitted("Codex", self.denied, fix)


def _status_of(info: Any) -> int | None:
    """The HTTP status in the `codexErrorInfo` of an error, where it has one."""
    for detail in info.values() if isinstance(info, dict) else ():
        status = detail.get("httpStatusCode") if isinstance(detail, dict) else None
        if isinstance(status, int):
            return status
    return None


def classify_codex_error(message: str, info: Any, until: float | None = None) -> AgentError:
    """`info` is `codexErrorInfo`; `until` is when the limit of the account ends, where that is known."""
    text = message.strip()[:_DETAIL] or "Codex reported an error without a message."
    if "Quota exceeded" in text:
        return AgentError(AgentError.AUTH, text, fix="The account has no credit; add some, or use another key.")
    if "reason: content_filter" in text:
        return AgentError(AgentError.REFUSED, f"The model declined: {text}")
    status = _status_of(info)
    kind = _NAMED.get(info) if isinstance(info, str) else None
    if kind is None:
        return classify_error(text, status=status, until=until)
    if kind == AgentError.RATE_LIMITED:
        return AgentError(kind, text, until=until or reset_time(text))
    return AgentError(kind, text, fix=_FIXES.get(kind, ""))
