"""What is particular to agents of the Agent Client Protocol, by the name they introduce themselves with. Pure.

An agent without an entry is taken at the protocol's word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ...errors import AgentError
from ..error_kinds import classify_error
from ..jsonrpc import ResponseError

AUTH_REQUIRED = -32000


class KnownAgent(Struct, frozen=True, kw_only=True):
    """`modes`: the first of these that it offers lets it work without asking.
    `cumulative`: the usage in an answer counts every prompt of this process, not the one that was answered.
    `has_message_ids`: what its model says has a message id, so text without one is the program's own.
    `program_text`: a piece of text that is the program's own; `error_text`: one that says that the turn has failed;
    `bare_error_text`: one that says so, with an HTTP status, only where the model has said nothing before it.
    `meanings`: words of its errors that tell more than `error_kinds` knows, and the kind they mean.
    `replays_late`: it goes on telling the history after it has answered `session/load`.
    `resumes_elsewhere`: a conversation that is resumed goes on in the directory in which it began.
    `hides_broken_answers`: an answer that broke off ends the turn like a good one, without text or without tokens.
    `session_meta`: what it is sent with `session/new` and the like.
    `mcp_argument`: it ignores stdio servers from its client, and takes a file of them by this argument instead.
    """

    tested: str = ""
    modes: tuple[str, ...] = ()
    cumulative: bool = False
    has_message_ids: bool = False
    program_text: re.Pattern[str] | None = None
    error_text: re.Pattern[str] | None = None
    bare_error_text: re.Pattern[str] | None = None
    meanings: tuple[tuple[str, str], ...] = ()
    replays_late: bool = False
    resumes_elsewhere: bool = False
    hides_broken_answers: bool = False
    session_meta: Mapping[str, Any] = {}
    mcp_argument: str = ""

    def is_program_text(self, text: str, message_id: str | None) -> bool:
        """Whether a whole piece of text is the program's own rather than its model's."""
        if self.program_text is None or (self.has_message_ids and message_id):
            return False
        return self.program_text.match(text) is not None

    def is_failure(self, text: str, *, alone: bool) -> bool:
        forms = (self.error_text, self.bare_error_text if alone else None)
        return any(form.fullmatch(text.strip()) for form in forms if form is not None)


UNKNOWN = KnownAgent()

# codex-acp: `unexpected status 403 Forbidden: …`, `exceeded retry limit, last status: 429 Too Many Requests`,
# `stream disconnected before completion: …`, and whatever else; only these are no errors.
_CODEX_ERRORS = re.compile(r"(?!Warning: |Config warning: |\*Context compacted).+", re.DOTALL)
_COPILOT_OWN = re.compile(r"(?:Info|Error): ")
_COPILOT_ERRORS = re.compile(
    r"Error: (?:Authentication failed with provider at \S+ \(HTTP \d+\)\.|"
    r"Failed to get response from the AI model; retried \d+ times).*",
    re.DOTALL,
)
_COPILOT_BARE_ERRORS = re.compile(r"Error: ([45]\d\d) .+", re.DOTALL)

KNOWN: Mapping[str, KnownAgent] = {
    "@agentclientprotocol/claude-agent-acp": KnownAgent(tested="0.99.1", modes=("bypassPermissions",)),
    "@agentclientprotocol/codex-acp": KnownAgent(
        tested="2.6.0",
        modes=("agent-full-access",),
        # Otherwise a prompt does not wait for the MCP servers, and its first steps are without their tools.
        session_meta={"mcpStartupAwaitTimeoutMs": 20_000},
        has_message_ids=True,
        program_text=re.compile(r""),
        error_text=_CODEX_ERRORS,
        meanings=(
            ("experiencing high demand", AgentError.PROVIDER),
            ("Missing environment variable", AgentError.AUTH),
        ),
    ),
    # Its usage is that of the last step of a turn: a lower bound.
    "OpenCode": KnownAgent(tested="1.18.33", resumes_elsewhere=True),
    "Copilot": KnownAgent(
        tested="1.0.102",
        cumulative=True,
        program_text=_COPILOT_OWN,
        error_text=_COPILOT_ERRORS,
        bare_error_text=_COPILOT_BARE_ERRORS,
        meanings=(("Failed to get response from the AI model", AgentError.PROVIDER),),
        mcp_argument="--additional-mcp-config",
    ),
    "gemini-cli": KnownAgent(tested="0.61.0", modes=("yolo",), replays_late=True, hides_broken_answers=True),
}

_SEARCHED_END = 20
_LAST_NUMBER = re.compile(r"\s([45]\d\d)\Z")


def classify_text(agent: KnownAgent, text: str) -> AgentError:
    """For an error that the agent told only as text."""
    text = text.strip()
    bare = agent.bare_error_text.fullmatch(text) if agent.bare_error_text else None
    error = classify_error(text, status=int(bare[1]) if bare else None)
    if error.kind == AgentError.TURN_FAILED:
        for words, kind in agent.meanings:
            if words in text:
                return AgentError(kind, error.message)
    return error


def classify_response(error: ResponseError, until: float | None = None) -> AgentError:
    """For an error that the agent answered with; `until` where it told before when a limit ends."""
    data = error.data if isinstance(error.data, dict) else {}
    text = _text(error, data)
    if error.code == AUTH_REQUIRED:
        return AgentError(
            AgentError.AUTH, text, fix="Log the agent in by hand, give it a key, or set acp.auth_method."
        )
    names = [data.get(field) for field in ("errorKind", "errorName", "codexErrorInfo")]
    name = next((name for name in names if isinstance(name, str)), "")
    # Gemini CLI answers with the provider's HTTP status as the code of the error; OpenCode leaves it to the words.
    status = error.code if 400 <= error.code < 600 else None
    if data.get("errorName") == "APIError" and (last := _LAST_NUMBER.search(text[-_SEARCHED_END:])):
        status = int(last[1])
    return classify_error(text, status=status, until=until, name=name)


def _text(error: ResponseError, data: dict[str, Any]) -> str:
    details = next((data[key] for key in ("details", "message") if isinstance(data.get(key), str)), "")
    message = error.message.removeprefix("Internal error").removeprefix(": ")
    return ": ".join(part for part in (message, details) if part) or error.message
