"""What an error means, whichever agent reports it: the kind that says whether to try again, and when. Pure.

| kind                 | again?              | meant                                                              |
|----------------------|---------------------|--------------------------------------------------------------------|
| agent_not_found      | when mended         | the program is not there (exit code 127)                           |
| agent_not_executable | when mended         | it cannot be run (exit code 126)                                   |
| agent_auth           | when mended         | key or login missing, refused or without the right                 |
| agent_config         | when mended         | an option, a model or a mode that the agent does not take          |
| permission_denied    | no                  | the agent was not allowed to use a tool that it wanted             |
| model_refused        | no                  | the model declined to answer                                       |
| rate_limited         | at the reset        | rate or usage limit; no attempt is spent                           |
| provider_error       | yes                 | the provider failed: 5xx, overloaded, connection lost              |
| tools_unavailable    | yes                 | our tool server did not start for the agent                        |
| session_refused      | yes, fresh          | the conversation cannot be resumed any more                        |
| response_timeout     | yes                 | no answer where one was due at once                                |
| turn_unfinished      | yes                 | the process ended without a last word                              |
| turn_cancelled       | yes                 | the turn was interrupted                                           |
| turn_failed          | yes                 | anything else                                                      |
"""

from __future__ import annotations

import re
import signal as signals

from ..errors import AgentError
from .resets import reset_time

_DETAIL = 600

# How a shell tells that its program was ended by a signal.
_SHELL_SIGNALS = frozenset(range(129, 144))

_STATUS = re.compile(r"(?<![\w.:/-])([45]\d\d)(?![\w/-]|\.\d)")
_LIMIT = re.compile(
    r"rate.?limit|usage limit|too many requests|quota (?:exceeded|exhausted)|resource.?exhausted|limit reached",
    re.I,
)
_LOGIN = re.compile(
    r"unauthori[sz]ed|unauthenticated|authentication[_ ](?:failed|error|required)|invalid (?:x-)?api[- ]?key|"
    r"api key not valid|incorrect api key|not logged in|please (?:run /)?log ?in|"
    r"no auth(?:entication)? (?:credentials|information)",
    re.I,
)
_OVERLOAD = re.compile(
    r"overloaded|internal server error|bad gateway|service unavailable|connection (?:error|refused|reset|closed)|"
    r"stream disconnected|socket hang up|ECONNRE|fetch failed|timed? ?out",
    re.I,
)


def fault(message: str, *, status: int | None = None, until: float | None = None) -> AgentError:
    """The error for what an agent says about its provider; `status` is the HTTP status where it is told apart."""
    text = message.strip()[:_DETAIL] or "The agent reported an error without a message."
    code = status if status else _status_in(text)
    if code in (401, 403) or (code is None and _LOGIN.search(text)):
        return AgentError(AgentError.AUTH, text, fix="Log the agent in, or give it a key that works.")
    if code == 429 or (code in (None, 400, 403, 503) and _LIMIT.search(text)):
        return AgentError(AgentError.RATE_LIMITED, text, until=until if until else reset_time(text))
    if code == 402:
        return AgentError(AgentError.AUTH, text, fix="The account has no credit; add some, or use another key.")
    if (code is not None and code >= 500) or (code in (None, 408) and _OVERLOAD.search(text)):
        return AgentError(AgentError.PROVIDER, text)
    return AgentError(AgentError.TURN_FAILED, text)


def fault_of_exit(code: int | None, signal: int | None, stderr: str) -> AgentError:
    """For a process that ended without a last word: by its exit code, and by what it said on standard error."""
    tail = stderr.strip()[-_DETAIL:]
    if code == 127:
        return AgentError(
            AgentError.NOT_FOUND,
            f"The program was not found (exit code 127): {tail.rstrip('.')}.",
            fix="Install it, or correct agent.command.",
        )
    if code == 126:
        return AgentError(
            AgentError.NOT_EXECUTABLE,
            f"The program cannot be executed (exit code 126): {tail.rstrip('.')}.",
            fix="Make it executable: chmod +x.",
        )
    if signal is None and code is not None and code in _SHELL_SIGNALS:
        signal = code - 128
    how = f"with exit code {code}" if signal is None else f"by {signal_name(signal)}"
    known = fault(tail) if tail and code else None
    if known and known.kind in (AgentError.AUTH, AgentError.RATE_LIMITED):
        return known
    return AgentError(
        AgentError.UNFINISHED, f"The agent ended {how} before it finished its turn: {tail or 'it said nothing'}"
    )


def _status_in(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
