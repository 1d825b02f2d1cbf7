"""What `codex app-server` says about a turn: its events, their meaning, and when a success is none. Pure.

The threads of sub-agents speak on the same line: their tokens count, their last word does not. Token counts are
running totals of a thread, over all its turns and processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from ...core.model import Usage
from ...errors import AgentError
from ..agent import AgentEvent, ErrorReported, LimitReported, StderrLine, ToolFinished, ToolStarted
from ..jsonrpc import Message
from ..turn_reader import ALIVE, Meter, TurnReader, decode, message_lines, shorten
from .codex_errors import fault_of, status_of
from .codex_items import Item


class _Counts(Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0

    def as_usage(self) -> Usage:
        """The input has its cached part in it already, and the output its reasoning."""
        return Usage(self.input_tokens, self.output_tokens, self.cached_input_tokens)

    def less(self, other: _Counts) -> Usage:
        return Usage(
            max(self.input_tokens - other.input_tokens, 0),
            max(self.output_tokens - other.output_tokens, 0),
            max(self.cached_input_tokens - other.cached_input_tokens, 0),
        )


class _TokenUsage(Struct, frozen=True):
    total: _Counts
    last: _Counts = _Counts()


class _Tokens(Struct, frozen=True, rename="camel"):
    thread_id: str
    token_usage: _TokenUsage
    turn_id: str = ""


class _Problem(Struct, frozen=True, rename="camel"):
    message: str = ""
    codex_error_info: Any = None
    additional_details: str | None = None


class _ErrorEvent(Struct, frozen=True, rename="camel"):
    thread_id: str
    error: _Problem
    will_retry: bool = False


class _Turn(Struct, frozen=True):
    id: str
    status: str = ""
    error: _Problem | None = None


class _TurnEvent(Struct, frozen=True, rename="camel"):
    thread_id: str
    turn: _Turn


class _ItemEvent(Struct, frozen=True, rename="camel"):
    thread_id: str
    item: Item


class _Window(Struct, frozen=True, rename="camel"):
    used_percent: float = 0.0
    resets_at: float | None = None


class _Limits(Struct, frozen=True):
    primary: _Window | None = None
    secondary: _Window | None = None


class _LimitEvent(Struct, frozen=True, rename="camel"):
    rate_limits: _Limits


class _ServerEvent(Struct, frozen=True, rename="camel"):
    name: str
    status: str
    thread_id: str | None = None
    error: str | None = None


class _Notice(Struct, frozen=True):
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
        self.limit_until: float | None = None
        self.denied: list[str] = []
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
        """As `read`, for a line that has been taken apart already."""
        try:
            return list(self.notified(message)) or [ALIVE]
        except (msgspec.DecodeError, RecursionError):
            return [ALIVE]

    def notified(self, message: Message) -> Iterator[AgentEvent]:
        match message.method:
            case "turn/started":
                self._started(decode(message.params, _TurnEvent))
            case "item/started" | "item/completed":
                event = decode(message.params, _ItemEvent)
                if event.thread_id == self.session_id:
                    self.limited = False
                    yield from self._item(event.item, begun=message.method == "item/started")
            case "thread/tokenUsage/updated":
                yield from self._tokens(decode(message.params, _Tokens))
            case "account/rateLimits/updated":
                yield from self._limits(decode(message.params, _LimitEvent).rate_limits)
            case "mcpServer/startupStatus/updated":
                yield from self._server(decode(message.params, _ServerEvent))
            case "error":
                yield from self._error(decode(message.params, _ErrorEvent))
            case "turn/completed":
                yield from self._completed(decode(message.params, _TurnEvent))
            case "warning" | "configWarning" | "guardianWarning" | "deprecationNotice":
                notice = decode(message.params, _Notice)
                yield StderrLine(shorten(notice.message or notice.summary))

    def _started(self, event: _TurnEvent) -> None:
        self.session_id = self.session_id or event.thread_id
        if event.thread_id == self.session_id:
            self.turn_id = self.turn_id or event.turn.id

    def _item(self, item: Item, *, begun: bool) -> Iterator[AgentEvent]:
        if item.type == "agentMessage":
            if not begun:
                yield from message_lines(shorten(item.text) if not isinstance(item.text, str) else item.text)
        elif item.is_tool and begun:
            yield ToolStarted(item.name, item.request)
        elif item.is_tool:
            if item.denied:
                self.denied.append(item.name)
            yield ToolFinished(item.name, failed=item.failed, detail=item.outcome)

    def _tokens(self, event: _Tokens) -> Iterator[AgentEvent]:
        """The first report of a thread says where its total stood: a resumed one repeats what was used before."""
        usage = event.token_usage
        meter = self._meters.get(event.thread_id)
        if meter is None:
            meter = self._meters[event.thread_id] = Meter()
            ours = event.thread_id == self.session_id
            of_earlier_turns = not self.turn_id or (ours and event.turn_id != self.turn_id)
            meter.start_at(usage.total.as_usage() if of_earlier_turns else usage.total.less(usage.last))
        yield from meter.reach(usage.total.as_usage())

    def _limits(self, limits: _Limits) -> Iterator[AgentEvent]:
        spent = [window for window in (limits.primary, limits.secondary) if window and window.used_percent >= 100]
        self.limit_until = max((window.resets_at or 0.0 for window in spent), default=0.0) or None
        if spent:
            yield LimitReported("The usage limit of the account is reached.", self.limit_until)

    def _server(self, event: _ServerEvent) -> Iterator[AgentEvent]:
        self.servers[event.thread_id or "", event.name] = (event.status, event.error or "")
        if event.status == "failed":
            yield ErrorReported(
                f"The MCP server {event.name} did not start: {shorten(event.error or 'no reason given')}"
            )

    def _error(self, event: _ErrorEvent) -> Iterator[AgentEvent]:
        if event.thread_id != self.session_id or self.decided or not event.will_retry:
            return  # an error that ends the turn comes again with its last word
        problem = event.error
        detail = problem.additional_details or problem.message  # the message only counts its attempts
        status = status_of(problem.codex_error_info)
        if status == 401:
            self.failure = fault_of(detail, problem.codex_error_info, self.limit_until)
        self.limited = status == 429 or problem.codex_error_info == "rateLimitExceeded"
        yield LimitReported(detail, self.limit_until) if self.limited else ErrorReported(detail)

    def _completed(self, event: _TurnEvent) -> Iterator[AgentEvent]:
        ours = event.thread_id == self.session_id and event.turn.id == self.turn_id
        if not ours or not self.turn_id or self.finished:
            return
        self.finished = True
        self.failure = self.failure or self._false_success(event.turn)
        if self.failure:
            yield ErrorReported(self.failure.message)

    def _false_success(self, turn: _Turn) -> AgentError | None:
        if turn.status == "interrupted":
            return AgentError(AgentError.CANCELLED, "The turn was interrupted.")
        if turn.status != "completed" or turn.error:
            problem = turn.error or _Problem(f"The turn ended as {turn.status[:40] or 'nothing known'}.")
            return fault_of(problem.message, problem.codex_error_info, self.limit_until)
        if self.denied:
            return AgentError(
                AgentError.PERMISSION,
                f"Codex was not allowed to use {', '.join(sorted(set(self.denied)))}.",
                fix="Set codex.approval_policy to never, or widen codex.thread_sandbox.",
            )
        return None
