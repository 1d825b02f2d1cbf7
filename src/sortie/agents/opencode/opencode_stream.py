"""What `opencode run --format json` says: its steps, their meaning, and when a success is none. Pure.

There is no final event. A turn completed when its last step ended with the reason `stop`, nothing followed, and the
process ended well. Half of what matters is told on standard error only: servers that did not start, options that
were ignored, attempts that failed and are made again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from ...core.model import Usage
from ...errors import AgentError
from ...protocol.session_files import SERVER
from ..agent import AgentEvent, ErrorReported, LimitReported, ToolFinished, ToolStarted
from ..error_kinds import classify_error, not_permitted
from ..turn_reader import TurnExit, TurnReader, decode, message_lines, shorten

# OpenCode asks again for ever where a provider ends its answers without a reason.
_STEPS_WITHOUT_REASON = 5
_WORTH_WAITING = 60.0
_HEADER_LIMIT = 100

_DENIED = ("The user rejected permission", "The user has specified a rule which prevents")
_LOST_SERVER = re.compile(
    rf'message="(?:server unavailable" key|MCP connection closed" server)={re.escape(SERVER)}(?=\s|$)'
)
_NO_MODEL = ("message=failed ", "ProviderModelNotFoundError: ")
_NO_AGENT = ('" not found', '" is a subagent')
_FALLBACK = "Falling back to default agent"
_FAILED_ATTEMPT = ('message="stream error" ', "small=false ", 'error="')
_ERROR_NAME = re.compile(r"\w+: ")
_UNQUOTED = re.compile(r'[^"\\]+')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class _OpenCodeHead(Struct, frozen=True):
    type: str = ""
    session_id: str = field(name="sessionID", default="")


class _Cache(Struct, frozen=True):
    read: int = 0
    write: int = 0


class _Tokens(Struct, frozen=True):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = _Cache()


class _State(Struct, frozen=True):
    status: str = ""
    input: Any = None
    output: Any = None
    error: Any = None


class _Part(Struct, frozen=True):
    id: str = ""
    message_id: str = field(name="messageID", default="")
    text: str = ""
    reason: str = ""
    tokens: _Tokens = _Tokens()
    cost: float = 0.0
    tool: str = "tool"
    state: _State = _State()
    metadata: dict[str, Any] | None = None

    @property
    def usage(self) -> Usage:
        """With what was read from the cache and written to it as part of the input."""
        tokens, cache = self.tokens, self.tokens.cache
        return Usage(
            max(tokens.input + cache.read + cache.write, 0),
            max(tokens.output + tokens.reasoning, 0),
            max(cache.read, 0),
            max(self.cost, 0.0),
        )

    def has_mark(self, name: str) -> bool:
        return bool((self.metadata or {}).get(name))


class _OpenCodeEvent(Struct, frozen=True):
    part: _Part


class _Reported(Struct, frozen=True):
    error: msgspec.Raw


class _Details(Struct, frozen=True, rename="camel"):
    message: str = ""
    status_code: int | None = None
    is_retryable: bool | None = None
    response_headers: dict[str, str] | None = None


class _OpenCodeError(Struct, frozen=True):
    name: str = ""
    data: _Details = _Details()


class OpenCodeReader(TurnReader):
    def __init__(self, session_id: str = "") -> None:
        super().__init__(session_id)
        self._seen: set[str] = set()
        self._acted: set[str] = set()
        self._reason = ""
        self._steps_without_reason = 0
        self._overflow = ""
        self._summary_due = False

    def events(self, line: bytes) -> Iterator[AgentEvent]:
        head = decode(line, _OpenCodeHead)
        if head.session_id and not self._is_ours(head.session_id):
            return
        match head.type:
            case "step_start":
                self.finished = False
            case "step_finish" | "text" | "reasoning" | "tool_use":
                yield from self._part(head.type, decode(line, _OpenCodeEvent).part)
            case "error":
                yield from self._error(decode(line, _Reported).error)

    def read_stderr(self, line: str) -> list[AgentEvent]:
        """What a line of standard error says; the same line may come twice."""
        if attempt := _after(line, *_FAILED_ATTEMPT).removesuffix('"'):
            name = _ERROR_NAME.match(attempt)
            return [self._attempt(classify_error(attempt[name.end() :] if name else attempt))]
        error = _classify_stderr(line)
        if error is None:
            return []
        if self.failure is None or error.kind == AgentError.CONFIG:  # which the stream reports as an unknown error
            self.failure = error
        return [ErrorReported(error.message)]

    def verdict(self, ending: TurnExit) -> AgentError | None:
        ending = msgspec.structs.replace(ending, stderr=_COLOURS.sub("", ending.stderr))
        if self.denied and not self.failure:
            fix = "Change opencode.allowed_tools, opencode.denied_tools, or the permissions in opencode.json."
            return not_permitted("OpenCode", self.denied, fix)
        if self.finished and self._overflow and not self.failure and (ending.code, ending.signal) == (1, None):
            return None  # its exit code tells of the overflow, which it has repaired
        return super().verdict(ending)

    def explain_exit(self, ending: TurnExit) -> AgentError | None:
        said = ending.stderr.strip()
        if "Session not found" in said:
            return AgentError(AgentError.SESSION, "OpenCode does not know the conversation any more.")
        if "Configuration is invalid" in said:
            return AgentError(AgentError.CONFIG, f"OpenCode refuses its configuration: {said[-300:]}")
        if "[boolean]" in said and not self._seen:
            fix = "Install a version that was tested; `sortie doctor` names it."
            return AgentError(AgentError.CONFIG, "OpenCode refuses its options and prints its help.", fix=fix)
        if self._summary_due and ending.signal is None:
            return AgentError(AgentError.SESSION, f"The conversation has outgrown the model: {self._overflow}")
        if self._reason == "length":
            return AgentError(AgentError.TURN_FAILED, "The answer was cut off at the model's limit for output.")
        return None

    def _attempt(self, error: AgentError) -> AgentEvent:
        if error.kind != AgentError.RATE_LIMITED:
            return ErrorReported(error.message)
        if error.until and error.until > time.time() + _WORTH_WAITING and not self.decided:
            self.failure = error  # it would wait in silence, however long that is
        return LimitReported(error.message, error.until)

    def _is_ours(self, session_id: str) -> bool:
        if self.session_id and session_id != self.session_id:
            said = f"OpenCode went on in the conversation {session_id} instead of {self.session_id}."
            self.failure = AgentError(AgentError.SESSION, said)
            return False
        self.session_id = session_id
        return True

    def _part(self, type: str, part: _Part) -> Iterator[AgentEvent]:
        if part.id in self._seen:  # told again, for instance because an old output was cut
            return
        if part.id:
            self._seen.add(part.id)
        if type == "tool_use":
            yield from self._tool(part)
        elif type == "step_finish":
            yield from self._step_finish(part)
        elif part.has_mark("compaction_continue"):  # the step before was a summary; OpenCode asks itself to go on
            self.finished = False
        else:
            yield from message_lines(part.text)

    def _tool(self, part: _Part) -> Iterator[AgentEvent]:
        state = part.state
        failed = state.status == "error" or part.tool == "invalid"
        if not part.has_mark("providerExecuted"):
            self._acted.add(part.message_id)
        if failed and str(state.error).startswith(_DENIED):
            self.denied.add(part.tool)
        yield ToolStarted(part.tool, shorten(state.input))
        yield ToolFinished(part.tool, failed=failed, detail=shorten(state.error or state.output or ""))

    def _step_finish(self, part: _Part) -> Iterator[AgentEvent]:
        yield from self.meter.add(part.usage)
        goes_on = part.message_id in self._acted or self._summary_due
        self._summary_due = False
        self._reason = part.reason
        self.finished = part.reason == "stop" and not goes_on
        self._steps_without_reason = (
            self._steps_without_reason + 1 if part.reason == "unknown" and not goes_on else 0
        )
        if self._steps_without_reason == _STEPS_WITHOUT_REASON:
            said = f"The provider ended {_STEPS_WITHOUT_REASON} answers in a row without a reason."
            self.failure = AgentError(AgentError.PROVIDER, said)
            yield ErrorReported(said)

    def _error(self, raw: msgspec.Raw) -> Iterator[AgentEvent]:
        try:
            error = decode(raw, _OpenCodeError)
        except msgspec.DecodeError:
            error = _OpenCodeError(data=_Details(message=shorten(bytes(raw).decode("utf-8", "replace"))))
        self.finished = False
        if error.name == "ContextOverflowError":
            self._overflow = error.data.message or "its context is full."
            self._summary_due = True
            yield ErrorReported(self._overflow)
            return
        self.failure = self.failure or _failure(error)
        if self.failure.kind == AgentError.RATE_LIMITED:
            yield LimitReported(self.failure.message, self.failure.until)
        else:
            yield ErrorReported(self.failure.message)


def _classify_stderr(line: str) -> AgentError | None:
    if _LOST_SERVER.search(line):
        return AgentError(AgentError.TOOLS, f"The MCP server {SERVER} did not start, or has ended.")
    if model := _UNQUOTED.match(_after(line, *_NO_MODEL)):
        fix = "Correct opencode.model, or log its provider in: opencode auth login"
        return AgentError(AgentError.CONFIG, model[0].strip(), fix=fix)
    agent, fallback, _ = _after(line, 'agent "').partition(_FALLBACK)
    if fallback and any(refusal in agent for refusal in _NO_AGENT):
        said = f'OpenCode ignores its option: agent "{agent}{fallback}.'
        return AgentError(AgentError.CONFIG, said, fix="Correct opencode.agent.")
    return None


def _after(line: str, *marks: str) -> str:
    """What follows the marks, one after the other; empty where one is missing."""
    for mark in marks:
        line = line.partition(mark)[2]
    return line


def _failure(error: _OpenCodeError) -> AgentError:
    details = error.data
    said = details.message or error.name
    match error.name:
        case "ContentFilterError":
            return AgentError(AgentError.REFUSED, f"The model declined: {said}")
        case "ProviderAuthError":
            return AgentError(AgentError.AUTH, said, fix="Log the provider in: opencode auth login")
        case "MessageAbortedError":
            return AgentError(AgentError.CANCELLED, said)
        case "APIError" if details.status_code == 404:
            fix = "Correct opencode.model, or the address in opencode.json."
            return AgentError(
                AgentError.CONFIG, f"The provider does not know the model or the address: {said}", fix=fix
            )
        case "APIError" if details.status_code is None and details.is_retryable:
            return AgentError(AgentError.PROVIDER, said)
    return classify_error(said, status=details.status_code, until=_until(details.response_headers or {}))


def _until(headers: dict[str, str]) -> float | None:
    """When to come back, as the provider's answer says: in seconds, or as a date."""
    header = headers.get("retry-after", "")[:_HEADER_LIMIT]
    if re.fullmatch(r"\d{1,9}(\.\d*)?", header):
        return time.time() + float(header)
    try:
        return parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError):
        return None
