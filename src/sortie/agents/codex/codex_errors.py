"""What the errors of Codex mean: its own names for them first, then the HTTP status, then the words. Pure."""

from __future__ import annotations

from typing import Any

from ...errors import AgentError
from ..error_kinds import classify_error
from ..reset_times import reset_time

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


def status_of(info: Any) -> int | None:
    """The HTTP status in the `codexErrorInfo` of an error, where it has one."""
    for detail in info.values() if isinstance(info, dict) else ():
        status = detail.get("httpStatusCode") if isinstance(detail, dict) else None
        if isinstance(status, int):
            return status
    return None


def fault_of(message: str, info: Any, until: float | None = None) -> AgentError:
    """`info` is `codexErrorInfo`; `until` is when the limit of the account ends, where that is known."""
    text = message.strip()[:_DETAIL] or "Codex reported an error without a message."
    if "Quota exceeded" in text:
        return AgentError(AgentError.AUTH, text, fix="The account has no credit; add some, or use another key.")
    if "reason: content_filter" in text:
        return AgentError(AgentError.REFUSED, f"The model declined: {text}")
    status = status_of(info)
    kind = _NAMED.get(info) if isinstance(info, str) else None
    if kind is None:
        return classify_error(text, status=status, until=until)
    if kind == AgentError.RATE_LIMITED:
        return AgentError(kind, text, until=until or reset_time(text))
    return AgentError(kind, text, fix=_FIXES.get(kind, ""))
