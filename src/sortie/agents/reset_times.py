"""When a provider's limit ends, if what an agent says about it tells. Pure."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, tzinfo

# Where to look for it; nobody tells it after pages of something else.
_SEARCHED = 4_000

# What an agent says about a limit is read a while after it was said.
_JUST_PASSED = 3_600.0

_EPOCH = re.compile(r"\|(\d{10,13})\b")
_AFTER = re.compile(r"(?:retry|try again|resets?|available)\s{0,4}(?:-?after|in)\s{0,4}:?\s{0,4}(?=\d)", re.I)
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s{0,4}([a-z]{0,12})[\s,]{0,4}(?:and )?", re.I)
_AT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)")
_UNITS = (("ms", 0.001), ("milli", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = re.compile(
    r"(?:resets? (?:(?:at|on) )?|try again (?:at|on) )"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>\d{{4}}))?"
    r"(?:,? at|,)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?:\s?(?P<half>[ap])m\b|(?<=:\d\d)\b)"
    r"(?: \((?P<zone>[^()]{1,64})\))?",
    re.I,
)


def reset_time(text: str, now: float | None = None) -> float | None:
    """None for none, else as in `…|1767225600`, `try again in 5m 3s`, `resets at 2026-11-16T05:00Z`,
    `resets 3:33am (UTC)`, `resets 15:00`, `try again at Sep 15th, 7pm`.
    Without a zone it is this machine's time that is meant.
    """
    now = time.time() if now is None else now
    text = text[:_SEARCHED]
    if found := _EPOCH.search(text):
        stamp = float(found[1])
        return stamp / 1000 if stamp > 1e11 else stamp
    if found := _AFTER.search(text):
        return now + _seconds(text, found.end())
    if found := _CLOCK.search(text):
        return _next(found, now)
    found = _AT.search(text)
    return moment_of(found[1]) if found else None


def moment_of(date: str) -> float | None:
    """For a date and time as ISO 8601 writes them; without a zone they are those of UTC."""
    try:
        moment = datetime.fromisoformat(date)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _seconds(text: str, start: int) -> float:
    """The sum of the parts that follow each other from here on: `1h 2m 3s`, `3 days and 4 hours`."""
    total = 0.0
    while part := _PART.match(text, start):
        unit = part[2].lower()
        total += float(part[1]) * next((seconds for name, seconds in _UNITS if unit.startswith(name)), 1.0)
        start = part.end()
    return total


def _next(clock: re.Match[str], now: float) -> float | None:
    """The next time that clock and calendar show this; now, where they have shown it within the last hour."""
    try:
        since = datetime.fromtimestamp(now - _JUST_PASSED, _zone(clock["zone"]))
        moment = since.replace(hour=_hour(clock), minute=int(clock["minute"] or 0), second=0, microsecond=0)
        if clock["month"] is not None:
            month, day = _MONTHS.index(clock["month"].lower()) + 1, int(clock["day"])
            moment = moment.replace(year=int(clock["year"] or since.year), month=month, day=day)
            if moment <= since and clock["year"] is None:
                moment = moment.replace(year=moment.year + 1)
        elif moment <= since:
            moment += timedelta(days=1)
        return max(moment.timestamp(), now)
    except (KeyError, ValueError, OverflowError, OSError):  # no such zone on this machine, or no such time
        return None


def _hour(clock: re.Match[str]) -> int:
    hour = int(clock["hour"])
    if clock["half"] is None:
        return hour
    if hour > 12:
        raise ValueError
    return hour % 12 + (12 if clock["half"].lower() == "p" else 0)


def _zone(name: str | None) -> tzinfo | None:
    """None is the zone of this machine. Its list of the others may be missing."""
    if name is None:
        return None
    if name.upper() in ("UTC", "GMT"):
        return UTC
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
