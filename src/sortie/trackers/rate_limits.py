"""How often a server may be asked: what it says of its own limits, and our own budget of calls per minute.

Both families of limits are read: a count that is used up until a time (`X-RateLimit-*`), and a server that says
"not now" for some seconds (`Retry-After`). Whoever is limited is told until when; nobody sleeps here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

MINUTE = 60.0

# Looking leaves a quarter of the budget to the runs, which have to hand over, comment and answer their agents.
SHARE_OF_LOOKS = 0.75

# A server that names no time wants at least a minute; none is believed that wants more than a day.
WITHOUT_A_TIME = 60.0
SHORTEST = 1.0
LONGEST = 86_400.0

_SAYS_LIMITED = ("rate limit", "abuse detection", "too many requests")


class Told(Struct, frozen=True, kw_only=True):
    """A server's own count of one kind of calls; times are seconds since the epoch, by our clock."""

    limit: int | None = None
    remaining: int | None = None
    resets_at: float | None = None


def told(headers: Mapping[str, str], now: float) -> Told:
    """What the headers of any answer say."""
    reset = headers.get("x-ratelimit-reset", "")
    at = _moment(reset)
    return Told(
        limit=_whole(headers.get("x-ratelimit-limit", "")),
        remaining=_whole(headers.get("x-ratelimit-remaining", "")),
        resets_at=None if at is None else min(max(_by_our_clock(at, headers, now), 0.0), now + LONGEST),
    )


def limited_until(status: int, headers: Mapping[str, str], message: str, now: float) -> float | None:
    """Until when this refusal asks us to wait; None where it is a refusal of another kind."""
    found = told(headers, now)
    wait = _retry_after(headers, now)
    used_up = found.remaining == 0
    if status == 403:
        says_so = any(words in message.lower() for words in _SAYS_LIMITED)
        is_limit = used_up or wait is not None or says_so
    else:
        is_limit = status == 429 or (status == 503 and wait is not None)
    if not is_limit:
        return None
    if wait is None:
        wait = found.resets_at - now if used_up and found.resets_at is not None else WITHOUT_A_TIME
    return now + min(max(wait, SHORTEST), LONGEST)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """In seconds from now; the header has a number of them, or a date."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    seconds = _whole(text)
    if seconds is not None:
        return float(seconds)
    at = _moment(text)
    return None if at is None else _by_our_clock(at, headers, now) - now


def _by_our_clock(at: float, headers: Mapping[str, str], now: float) -> float:
    """The server's clock may be another than ours: what counts is how far away the time is for the server."""
    there = _moment(headers.get("date", ""))
    return at if there is None else now + (at - there)


def _moment(text: str) -> float | None:
    """Seconds since the epoch, from such a number, an ISO time or an HTTP date."""
    text = text.strip()
    number = _whole(text)
    if number is not None:
        return float(number)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = read(text)
        except (ValueError, TypeError, OverflowError):
            continue
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return None


def _whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


class CallBudget:
    """Counts the calls of the last minute. It is our own politeness: every call counts, whatever became of it."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._made: deque[float] = deque()

    @property
    def made(self) -> int:
        self._forget()
        return len(self._made)

    def take(self, *, look: bool) -> float:
        """Count one more call and answer 0; where the budget does not allow it now, in how many seconds it will."""
        most = max(int(self.per_minute * SHARE_OF_LOOKS), 1) if look else self.per_minute
        self._forget()
        if len(self._made) < most:
            self._made.append(time.monotonic())
            return 0.0
        return self._made[len(self._made) - most] + MINUTE - time.monotonic()

    def _forget(self) -> None:
        before = time.monotonic() - MINUTE
        while self._made and self._made[0] <= before:
            self._made.popleft()
