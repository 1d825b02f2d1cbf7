"""What the errors of Codex mean: its own names for them first, then the HTTP status, then the words. Pure."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import Any

from ..errors import AgentError
from .faults import fault

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
_NO_MODEL = re.compile(r"\bmodel\b.{0,80}\b(?:is not supported|does not exist|not found)", re.I | re.S)
_DAY = r"(?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) )?"
_TRY_AGAIN_AT = re.compile(rf"try again at {_DAY}(\d{{1,2}}:\d\d [AP]M)")


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
    if kind is None and (status == 404 or (status is None and _NO_MODEL.search(text))):
        kind = AgentError.CONFIG
    if kind is None:
        return fault(text, status=status, until=until or reset_in_words(text))
    if kind == AgentError.RATE_LIMITED:
        return AgentError(kind, text, until=until or reset_in_words(text))
    return AgentError(kind, text, fix=_FIXES.get(kind, ""))


def reset_in_words(text: str, now: float | None = None) -> float | None:
    """From `try again at 3:33 AM` or `try again at Nov 30th, 2026 12:53 AM`, in the time of this machine."""
    found = _TRY_AGAIN_AT.search(text)
    if found is None:
        return None
    today = datetime.fromtimestamp(time.time() if now is None else now)
    month, day, year, clock = found.groups()
    try:
        moment = datetime.strptime(clock, "%I:%M %p")
        date = datetime.strptime(f"{month} {day} {year}", "%b %d %Y") if month else today
    except ValueError:
        return None
    moment = datetime.combine(date.date(), moment.time())
    if not month and moment < today:
        moment += timedelta(days=1)
    return moment.timestamp()
