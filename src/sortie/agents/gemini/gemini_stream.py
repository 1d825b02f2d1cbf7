"""What `gemini --output-format stream-json` says: its events, their meaning, and when a success is none. Pure.

`init`, the prompt, then `message` in pieces, `tool_use`, `tool_result` and `error` as they happen, and one `result`
with the totals of the process. What kind of error ended a turn shows in the exit code: an HTTP status modulo 256.
Retries and missing tool servers are told on standard error alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from ...core.model import Usage
from ...errors import AgentError
from ...protocol.session_files import SERVER
from ..agent import AgentEvent, ErrorReported, LimitReported, ToolFinished, ToolStarted
from ..error_kinds import classify_error, not_permitted
from ..reset_times import reset_time
from ..turn_reader import TurnExit, TurnReader, decode, shorten

_API_ERROR = "[API Error: "
_STATUSES = {status % 256: status for status in (400, 401, 403, 404, 408, 429, 499, 500, 502, 503, 504, 529)}
_EXITS = {
    41: AgentError.AUTH,
    44: AgentError.CONFIG,
    52: AgentError.CONFIG,
    55: AgentError.CONFIG,
    130: AgentError.CANCELLED,
}
_FIXES = {
    AgentError.AUTH: "Set GEMINI_API_KEY, or run `gemini` once and log in.",
    AgentError.CONFIG: "Correct the gemini block of the workflow, or the settings of Gemini CLI.",
}
_REFUSED_OPTIONS = ("-h, --help", "FatalSandboxError")
_NOISE = re.compile(r"YOLO mode is enabled|Warning: 256-color|Ripgrep is not available|\s+at ")
# At the start of a line only: what tools print goes to standard error too.
_MCP_ISSUES = re.compile(r"^(?:\[INFO\] )?MCP issues detected", re.M)
_WAIT = re.compile(r"(?:Attempt \d+ failed|Suggested retry after).* Retrying after (\d{1,12})ms")
# It would wait for the reset of a quota in its own process, for half a day if need be.
_LONGEST_WAIT = 60.0
_OUT_OF_QUOTA = re.compile(r"exhausted your|exceeded your current quota", re.I)
_CUT_SHORT = "ended without a finish reason"

# Where nobody can be asked, tools that would need it are not even offered; a model may call them all the same.
_GUARDED = frozenset(("run_shell_command", "write_file", "replace"))


class _GeminiHead(Struct, frozen=True):
    type: str = ""


class _GeminiInit(Struct, frozen=True):
    session_id: str
    model: Any = None


class _GeminiMessage(Struct, frozen=True):
    role: str = ""
    content: str = ""


class _ToolUse(Struct, frozen=True):
    tool_name: str = "tool"
    tool_id: str = ""
    parameters: Any = None


class _Failure(Struct, frozen=True):
    type: str = ""
    message: str = ""


class _GeminiToolResult(Struct, frozen=True):
    status: str
    tool_id: str = ""
    output: Any = None
    error: _Failure | None = None


class _Stats(Struct, frozen=True):
    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0
    models: Any = None

    @property
    def most_used(self) -> str:
        """Where Gemini chooses the model itself, only this tells which."""
        told = self.models.items() if isinstance(self.models, dict) else ()
        counts = [(stats.get("total_tokens"), name) for name, stats in told if isinstance(stats, dict)]
        return max(((count, name) for count, name in counts if isinstance(count, int)), default=(0, ""))[1]

    def as_usage(self) -> Usage:
        """The output without its thoughts is told, and so is the sum with them."""
        output = max(self.output_tokens, self.total_tokens - self.input_tokens)
        return Usage(self.input_tokens, output, self.cached)


class _GeminiResult(Struct, frozen=True):
    status: str
    stats: _Stats = _Stats()
    error: _Failure | None = None


class _Answer(Struct, frozen=True):
    code: int | None = None
    message: str = ""


class _Body(Struct, frozen=True):
    error: _Answer


class GeminiReader(TurnReader):
    def __init__(self, session_id: str = "") -> None:
        super().__init__(session_id)
        self._resuming = bool(session_id)
        self._answered = False
        self._last_error = ""
        self._error_text: str | None = None

    def events(self, line: bytes) -> Iterator[AgentEvent]:
        if self.finished:
            return
        kind = decode(line, _GeminiHead).type
        if kind != "message":
            yield from self.end_of_message()
        match kind:
            case "init":
                init = decode(line, _GeminiInit)
                self.session_id = init.session_id
                self.works_with(init.model)
            case "message":
                message = decode(line, _GeminiMessage)
                if message.role == "assistant":
                    self._forget_error(answered=True)
                    yield from self.message_piece(message.content)
            case "tool_use":
                use = decode(line, _ToolUse)
                self._forget_error(answered=False)
                self.tools[use.tool_id] = use.tool_name
                yield ToolStarted(use.tool_name, shorten(use.parameters))
            case "tool_result":
                yield self._tool_result(decode(line, _GeminiToolResult))
            case "error":
                # Loops, blocked answers, hooks that stop the agent: a success that follows at once is none.
                error = decode(line, _Failure)
                self._last_error = error.message or "Gemini reported an error without a message."
                yield ErrorReported(self._last_error)
            case "result":
                yield from self._result(decode(line, _GeminiResult))

    def read_stderr(self, line: str) -> list[AgentEvent]:
        """Before its first event it tells of a missing server, and during a turn how long it waits for a limit."""
        if self.finished:
            return []
        self.failure = self.failure or _missing_tools(line)
        wait = _WAIT.match(line)
        if wait is None:
            return []
        seconds = int(wait[1]) / 1000
        until = reset_time(line) or time.time() + seconds
        if seconds > _LONGEST_WAIT:
            self.failure = AgentError(AgentError.RATE_LIMITED, line, until=until)
        return [LimitReported(shorten(line), until)]

    def verdict(self, ending: TurnExit) -> AgentError | None:
        if self._error_text is not None:
            return self._classify(self._error_text, ending)
        return super().verdict(ending) or _missing_tools(ending.stderr)

    def explain_exit(self, ending: TurnExit) -> AgentError | None:
        said = "\n".join(line for line in ending.stderr.splitlines() if not _NOISE.match(line)).strip()[-400:]
        said = said or f"Gemini ended with exit code {ending.code}."
        if "Error resuming session" in said:
            return AgentError(AgentError.SESSION, said)
        if kind := _EXITS.get(ending.code or 0):
            return AgentError(kind, said, fix=_FIXES.get(kind, ""))
        if ending.code == 1 and any(mark in ending.stderr for mark in _REFUSED_OPTIONS):
            fix = _FIXES[AgentError.CONFIG]
            return AgentError(AgentError.CONFIG, f"Gemini refuses its options: {said[-200:]}", fix=fix)
        status = _STATUSES.get(ending.code or 0)
        return classify_error(said, status=status) if status else None

    def _tool_result(self, result: _GeminiToolResult) -> ToolFinished:
        self._forget_error(answered=False)
        name = self.tools.pop(result.tool_id, "tool")
        if result.error and _is_denial(name, result.error):
            self.denied.add(name)
        detail = result.error.message if result.error else result.output
        return ToolFinished(name, failed=result.status != "success", detail=shorten(detail or ""))

    def _forget_error(self, *, answered: bool) -> None:
        """What follows an error shows that it was none of the last."""
        self._answered = answered
        self._last_error = ""

    def _result(self, result: _GeminiResult) -> Iterator[AgentEvent]:
        self.finished = True
        yield from self.meter.reach(result.stats.as_usage())
        self.works_with(result.stats.most_used)
        if result.status != "success":
            told = result.error.message if result.error else self._last_error
            self._error_text = told or f"Gemini ended its turn with the status {result.status!r}."
            yield ErrorReported(self._error_text)
        elif failure := self._false_success(result):
            self.failure = failure
            yield ErrorReported(failure.message)

    def _false_success(self, result: _GeminiResult) -> AgentError | None:
        if self.denied:
            fix = "Set gemini.approval_mode, gemini.allowed_tools or gemini.policies."
            return not_permitted("Gemini", self.denied, fix)
        if self._last_error:
            return classify_error(self._last_error)
        if self._answered:
            return None
        if result.stats.total_tokens:
            return AgentError(AgentError.TURN_FAILED, "Gemini ended its turn without an answer of the model.")
        kind = AgentError.SESSION if self._resuming else AgentError.TURN_FAILED
        why = "the conversation is longer than the model takes, or a hook stopped it"
        return AgentError(kind, f"Gemini ended its turn without asking the model: {why}.")

    def _classify(self, text_of_error: str, ending: TurnExit) -> AgentError:
        if kind := _EXITS.get(ending.code or 0):
            return AgentError(kind, text_of_error, fix=_FIXES.get(kind, ""))
        status, text = _unwrapped(text_of_error)
        status = status or _STATUSES.get(ending.code or 0)
        if status == 404 or "is not found for API version" in text:
            return AgentError(AgentError.CONFIG, text, fix="Set gemini.model to a model that there is.")
        if "blocked due to" in text:
            return AgentError(AgentError.REFUSED, text)
        if _CUT_SHORT in text:
            return AgentError(AgentError.PROVIDER, text)
        too_long = " exceeds" in text.lower().partition("token count ")[2]
        if status == 400 and self._resuming and too_long:
            return AgentError(AgentError.SESSION, text)
        if _OUT_OF_QUOTA.search(text):
            status = 429
        # A wrong key is a bad request to this provider: the words tell, the status does not.
        return classify_error(text, status=None if status == 400 else status)


def _is_denial(name: str, error: _Failure) -> bool:
    if error.type == "tool_not_registered":
        return name in _GUARDED
    return error.type == "policy_violation" or "requires user confirmation" in error.message


def _missing_tools(stderr: str) -> AgentError | None:
    """Gemini says on standard error that a server is missing, and leaves open which one."""
    if _MCP_ISSUES.search(stderr) is None:
        return None
    return AgentError(
        AgentError.TOOLS,
        f"An MCP server failed for Gemini, which does not say which one: {SERVER} or one of yours.",
    )


def _unwrapped(text_of_error: str) -> tuple[int | None, str]:
    """Status and words of an error that may hold the provider's answer as it was."""
    body, end, _ = text_of_error.partition(_API_ERROR)[2].rpartition("]")
    if not end:
        return None, text_of_error
    try:
        answer = decode(body.encode("utf-8", "replace"), _Body).error
    except (msgspec.DecodeError, RecursionError):
        return None, body
    return answer.code, answer.message or body
