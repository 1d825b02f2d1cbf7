"""When a provider's limit ends, if what an agent says about it tells. Pure."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

_EPOCH = re.compile(r"\|(\d{10,13})\b")
_AFTER = re.compile(
    r"(?:retry|try again|resets?|available)\s*(?:-?after|in)\s*:?\s*((?:\d+(?:\.\d+)?\s*[a-z]*[\s,]*(?:and )?)+)",
    re.I,
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|d|h|m(?!s)|s)?", re.I)
_AT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)")
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_CLOCK = re.compile(r"resets (\d{1,2})(?::(\d\d))?(am|pm) \(([\w/+-]+)\)")


def reset_time(text: str, now: float | None = None) -> float | None:
    """`…|1767225600`, `try again in 5m 3s`, `resets at 2026-11-16T05:00Z`, `resets 3:33am (UTC)`; None for none."""
    now = time.time() if now is None else now
    if found := _EPOCH.search(text):
        stamp = float(found[1])
        return stamp / 1000 if stamp > 1e11 else stamp
    if found := _AFTER.search(text):
        return now + sum(
            float(number) * _SECONDS[(unit or "s").lower()] for number, unit in _PART.findall(found[1])
        )
    if found := _CLOCK.search(text):
        return _next(found, now)
    if found := _AT.search(text):
        try:
            moment = datetime.fromisoformat(found[1])
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


def _next(clock: re.Match[str], now: float) -> float | None:
    """The next time that the clock shows this."""
    from zoneinfo import ZoneInfo

    try:
        today = datetime.fromtimestamp(now, ZoneInfo(clock[4]))
        hour = int(clock[1]) % 12 + (12 if clock[3] == "pm" else 0)
        moment = today.replace(hour=hour, minute=int(clock[2] or 0), second=0, microsecond=0)
    except (KeyError, ValueError, OSError):  # there is no such zone, or no such time of day
        return None
    return (moment if moment > today else moment + timedelta(days=1)).timestamp()
