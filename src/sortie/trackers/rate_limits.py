"""Rate limits: those that a server reports, and our own limit of calls per minute.

Both families of limits are read: a count that is used up until a time (`X-RateLimit-*`), and a server that says
"not now" for some seconds (`Retry-After`). A limited caller gets the time of the end; nothing sleeps here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

MINUTE = 60.0

# Looking leaves a quarter of the budget to the runs, which have to hand over, comment and answer their agents.
SHARE_OF_LOOKS = 0.75
# Agents may ask without end: their tools have so much of it together, and nothing of the last eighth, which is the
# service's own. What they leave of the budget is enough to look.
SHARE_OF_TOOLS = 0.25
OPEN_TO_TOOLS = 0.875

# A server that names no time wants at least a minute; none is believed that wants more than a day.
WITHOUT_A_TIME = 60.0
# Who asks again too early makes it longer: each time that it names none the wait is twice as long, up to this one.
LONGEST_WITHOUT_A_TIME = 900.0
SHORTEST = 1.0
LONGEST = 86_400.0

_SAYS_LIMITED = ("rate limit", "abuse detection", "too many requests")


class ServerCount(Struct, frozen=True, kw_only=True):
    """A server's own count of one kind of calls; times are seconds since the epoch, by our clock."""

    limit: int | None = None
    remaining: int | None = None
    resets_at: float | None = None


def server_count(headers: Mapping[str, str], now: float) -> ServerCount:
    """What the headers of any answer say."""
    reset = headers.get("x-ratelimit-reset", "")
    at = _moment(reset)
    return ServerCount(
        limit=_whole(headers.get("x-ratelimit-limit", "")),
        remaining=_whole(headers.get("x-ratelimit-remaining", "")),
        resets_at=None if at is None else min(max(_by_our_clock(at, headers, now), 0.0), now + LONGEST),
    )


class Refusals:
    """Of a server that limits our calls; times are seconds since the epoch, by our clock."""

    def __init__(self) -> None:
        self._until = 0.0
        self._wait = WITHOUT_A_TIME

    def limited_until(self, status: int, headers: Mapping[str, str], message: str, now: float) -> float | None:
        """Until when this refusal asks us to wait; None where it is a refusal of another kind."""
        found = server_count(headers, now)
        wait = _retry_after(headers, now)
        used_up = found.remaining == 0
        if status == 403:
            says_so = any(words in message.lower() for words in _SAYS_LIMITED)
            is_limit = used_up or wait is not None or says_so
        else:
            is_limit = status == 429 or (status == 503 and wait is not None)
        if not is_limit:
            return None
        if wait is None and used_up and found.resets_at is not None:
            wait = found.resets_at - now
        return self._without_a_time(now) if wait is None else now + min(max(wait, SHORTEST), LONGEST)

    def heeded(self, now: float) -> None:
        """The server answered; an answer from before its time is to a call that was under way when it refused."""
        if now >= self._until:
            self._wait = WITHOUT_A_TIME

    def _without_a_time(self, now: float) -> float:
        """Calls that were under way together are refused together, and count once."""
        if now >= self._until:
            self._until = now + self._wait
            self._wait = min(2 * self._wait, LONGEST_WITHOUT_A_TIME)
        return self._until


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


_is_for_a_tool: ContextVar[bool] = ContextVar("_is_for_a_tool", default=False)


@contextmanager
def for_a_tool() -> Iterator[None]:
    """Calls that are made in here, however deep, are for a tool of an agent with whom others share the budget."""
    before = _is_for_a_tool.set(True)
    try:
        yield
    finally:
        _is_for_a_tool.reset(before)


class _Call(Struct, frozen=True):
    at: float
    what: str
    look: bool
    for_tool: bool


class CallBudget:
    """Counts the calls of the last minute. It is our own politeness: every call counts, whatever became of it."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._made: deque[_Call] = deque()

    @property
    def made(self) -> int:
        self._forget()
        return len(self._made)

    def share(self) -> str:
        """The caller's share of it, in words."""
        if _is_for_a_tool.get():
            return f"{self._part(SHARE_OF_TOOLS)} calls a minute that tools of agents have"
        return f"{self.per_minute} calls a minute"

    @property
    def of_looks(self) -> int:
        return self._part(SHARE_OF_LOOKS)

    def is_too_small(self, what: str) -> bool:
        """Whether a look that is refused this call is refused it every time: all calls of the last minute are of
        looks, and none was made twice, so they are of one look."""
        asked = {what, *(call.what for call in self._made if call.look and not call.for_tool)}
        return len(asked) == len(self._made) + 1 > self.of_looks

    def take(self, *, look: bool, what: str = "") -> float:
        """Count one more call and answer 0; where the budget does not allow it now, in how many seconds it will."""
        self._forget()
        for_tool = _is_for_a_tool.get()
        if for_tool:
            theirs = [call for call in self._made if call.for_tool]
            wait = max(
                self._wait(theirs, self._part(SHARE_OF_TOOLS)), self._wait(self._made, self._part(OPEN_TO_TOOLS))
            )
        else:
            wait = self._wait(self._made, self.of_looks if look else self.per_minute)
        if not wait:
            self._made.append(_Call(self._clock(), what, look, for_tool))
        return wait

    def _part(self, share: float) -> int:
        return max(int(self.per_minute * share), 1)

    def _forget(self) -> None:
        before = self._clock() - MINUTE
        while self._made and self._made[0].at <= before:
            self._made.popleft()

    def _wait(self, calls: Sequence[_Call], most: int) -> float:
        """In how many seconds there is room for one more, if a minute has so many."""
        return calls[len(calls) - most].at + MINUTE - self._clock() if len(calls) >= most else 0.0
