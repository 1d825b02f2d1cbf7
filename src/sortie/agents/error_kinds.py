"""What an error means, whichever agent reports it: the kind that says whether to try again, and when. Pure.

| kind                 | again?              | meant                                                              |
|----------------------|---------------------|--------------------------------------------------------------------|
| agent_not_found      | when fixed          | the program is not there (exit code 127), or not in its package    |
| agent_not_executable | when fixed          | it cannot be run (exit code 126)                                   |
| agent_auth           | when fixed          | key or login missing or refused; no credit; a disabled account     |
| agent_config         | when fixed          | an option, a model or a mode that is not taken; HTTP 404           |
| permission_denied    | no                  | the agent was not allowed to use a tool that it wanted             |
| model_refused        | no                  | the model declined to answer                                       |
| rate_limited         | at the reset        | rate or usage limit; no attempt is spent                           |
| provider_error       | yes                 | the provider failed: 5xx, overloaded, connection lost              |
| tools_unavailable    | yes                 | our tool server did not start for the agent                        |
| session_refused      | yes, fresh          | the conversation cannot be resumed any more                        |
| response_timeout     | yes                 | no answer where one was due at once                                |
| turn_unfinished      | yes                 | the process ended without a final event                            |
| turn_cancelled       | yes                 | the turn was interrupted                                           |
| turn_failed          | yes                 | anything else                                                      |
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterable

from ..errors import AgentError
from .reset_times import reset_time

_DETAIL = 600

# How a shell tells that its program was ended by a signal: 128 and its number, without the real-time signals and
# without those that end nobody (16 to 23 and 28), where exit codes of Gemini CLI lie: an HTTP status modulo 256.
_SHELL_SIGNALS = frozenset(range(129, 160)) - {*range(144, 152), 156}

# What a shell says that could not start its program.
_SHELL_EXITS = {
    126: (AgentError.NOT_EXECUTABLE, "cannot be executed", "Make it executable: chmod +x."),
    127: (AgentError.NOT_FOUND, "was not found", "Install it, or correct agent.command."),
}

# How much of standard error can be an error report.
_REPORT_SIZE = 8_000

# A line of an error report by the first of these words in it, unless that is the mark of a lesser level.
_MARK = re.compile(
    r"\b(?P<chatter>info|debug|trace|verbose|notice|warn(?:ing)?)\b|error|exception|fatal|fail(?:ed|ure)|denied|"
    r"forbidden|unauthori[sz]ed|unauthenticated|rejected|exceeded|too many requests|limit reached|hit your|"
    r"not logged in|please (?:run /)?log ?in|\b(?:HTTP|status(?: code)?:?) [45]\d\d",
    re.I,
)
# A number is an HTTP status where it is called one, or followed by what it means; others count something.
_STATUS = re.compile(
    r"\b(?:HTTP(?:/[\d.]{1,3})?|status(?: code)?|API Error|last error)[:=]? ([45]\d\d)\b(?![./-]?\w)|"
    r"rejected \(([45]\d\d)\)|\berror:? ([45]\d\d)(?= ?(?:$|[{:,]))|"
    r"(?<![\w.:/-])([45]\d\d) (?:Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Request Timeout|"
    r"Too Many Requests|Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out|Overloaded)\b",
    re.I | re.M,
)
_LIMIT = re.compile(
    r"rate.?limit(?!ers?\b|ing\b)|usage limit|(?:hit|reached) your (?:[\w'-]{1,20} ){0,4}limit|too many requests|"
    r"quota (?:exceeded|exhausted)|resource.?exhausted|limit reached|you're out of (?:extra )?usage",
    re.I,
)
# Providers answer it with almost any status: 400, 402, 403 and 429.
_NO_CREDIT = re.compile(
    r"credit balance is too low|insufficient[_ ](?:quota|balance|credits?|funds)|"
    r"organi[sz]ation has been disabled|belongs to a disabled organi[sz]ation|account is on hold|"
    r"account (?:has been|is) (?:disabled|deactivated|suspended)",
    re.I,
)
_NO_MODEL = re.compile(
    r"\bmodels?\b[:/ ]{0,2}(?:[^\s,]{1,80} )?(?:is |was )?(?:not found|not supported|does not exist)|"
    r"selected model \([^()]{0,80}\)\. It may not exist|model_not_(?:found|supported)|"
    r"\b(?:unknown model|no such model|invalid model (?:name|id))\b",
    re.I,
)
# What a package of npm starts when the program for this machine was not installed with it.
_EMPTY_PACKAGE = re.compile(
    r"native binary not installed|could not find native binary package|postinstall script was not run|"
    r"missing optional dependency @|no platform package found",
    re.I,
)
# Names that more than one agent has for its errors: `error` of Claude Code, `errorKind` of claude-agent-acp,
# `errorName` of OpenCode, `codexErrorInfo` of codex-acp.
_NAMED = {
    "authentication_failed": AgentError.AUTH,
    "oauth_org_not_allowed": AgentError.AUTH,
    "verification_required": AgentError.AUTH,
    "cloud_credential_error": AgentError.AUTH,
    "billing_error": AgentError.AUTH,
    "account_on_hold": AgentError.AUTH,
    "rate_limit": AgentError.RATE_LIMITED,
    "overloaded": AgentError.PROVIDER,
    "server_error": AgentError.PROVIDER,
    "transport_lost": AgentError.PROVIDER,
    "model_not_found": AgentError.CONFIG,
    "ProviderAuthError": AgentError.AUTH,
    "usageLimitExceeded": AgentError.RATE_LIMITED,
}
_FIXES = {
    AgentError.AUTH: "Log the agent in, or give it a key that works.",
    AgentError.CONFIG: "Correct the agent's model, or the address of its provider.",
}
_PAY = "The account has no credit or is disabled; settle that with its provider, or use another key."
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


def classify_error(
    message: str, *, status: int | None = None, until: float | None = None, name: str = ""
) -> AgentError:
    """The error for what an agent says about its provider.

    `status` is the HTTP status and `name` the agent's own name for the error, where they are told apart.
    """
    text = message.strip()[:_DETAIL] or "The agent reported an error without a message."
    found = None if status else _STATUS.search(text)
    code = int(found[found.lastindex or 0]) if found else status or None
    if code == 402 or (code in (None, 400, 403, 429) and _NO_CREDIT.search(text)):
        return AgentError(AgentError.AUTH, text, fix=_PAY)
    kind = _NAMED.get(name) or _kind(code, text)
    if kind == AgentError.RATE_LIMITED:
        return AgentError(kind, text, until=until if until else reset_time(text))
    return AgentError(kind, text, fix=_FIXES.get(kind, ""))


def _kind(code: int | None, text: str) -> str:
    if code in (401, 403) or (code is None and _LOGIN.search(text)):
        return AgentError.AUTH
    if code == 429 or (code in (None, 400, 503) and _LIMIT.search(text)):
        return AgentError.RATE_LIMITED
    if code == 404 or (code in (None, 400, 500) and _NO_MODEL.search(text)):
        return AgentError.CONFIG
    if (code is not None and code >= 500) or (code in (None, 408) and _OVERLOAD.search(text)):
        return AgentError.PROVIDER
    return AgentError.TURN_FAILED


def not_permitted(agent: str, tools: Iterable[str], fix: str) -> AgentError | None:
    """For a turn that ended well but for tools that the agent was not allowed to use; None where there are none."""
    names = sorted({*tools})
    if not names:
        return None
    return AgentError(AgentError.PERMISSION, f"{agent} was not allowed to use {', '.join(names)}.", fix=fix)


def classify_exit(code: int | None, signal: int | None, stderr: str, *, by_us: bool = False) -> AgentError:
    """For a process that ended without a final event: by its exit code, and by what it reported on standard error.

    Where a signal ended it, ours or another, that is all there is to know: its words were about something else.
    """
    tail = stderr.strip()[-_DETAIL:]
    if code in _SHELL_EXITS:
        kind, what, fix = _SHELL_EXITS[code]
        return AgentError(kind, f"The program {what} (exit code {code}): {tail.rstrip('.')}.", fix=fix)
    report = stderr if code and ended_by_itself(code, signal, by_us=by_us) else ""
    if _EMPTY_PACKAGE.search(report[-_REPORT_SIZE:]):
        return AgentError(
            AgentError.NOT_FOUND,
            f"The program itself is missing from its package: {tail}",
            fix="Install it anew, with the scripts and the optional packages that it comes with.",
        )
    report = _error_report(report)
    known = classify_error(report) if report else None
    if known and (known.kind in (AgentError.AUTH, AgentError.RATE_LIMITED) or _NO_MODEL.search(report)):
        return known
    return AgentError(
        AgentError.UNFINISHED,
        f"The agent {how_it_ended(code, signal)} before it finished its turn: {tail or 'it said nothing'}",
    )


def ended_by_itself(code: int | None, signal: int | None, *, by_us: bool = False) -> bool:
    """Whether it was the program that ended, so that what it said last can be the reason."""
    return not by_us and _killed_by(code, signal) is None


def how_it_ended(code: int | None, signal: int | None) -> str:
    killed_by = _killed_by(code, signal)
    return f"ended with exit code {code}" if killed_by is None else f"was ended by {_signal_name(killed_by)}"


def _killed_by(code: int | None, signal: int | None) -> int | None:
    return code - 128 if signal is None and code is not None and code in _SHELL_SIGNALS else signal


def _error_report(stderr: str) -> str:
    """Those lines of standard error that report an error, with the indented ones that follow them."""
    report: list[str] = []
    reporting = False
    for line in stderr[-_REPORT_SIZE:].splitlines():
        if not line[:1].isspace():
            mark = _MARK.search(line)
            reporting = mark is not None and mark["chatter"] is None
        if reporting:
            report.append(line)
    return "\n".join(report)[-_DETAIL:]


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
