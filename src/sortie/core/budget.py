"""What has been spent, and whether another session or turn is still allowed.

Sessions and turns are charged before they happen, so their limits are never exceeded. Tokens and money are
known only afterwards: a turn may end above the limit, but no turn starts there. A refusal names only the limit,
because what is spent still grows while it is repeated.
"""

from __future__ import annotations

from datetime import UTC, datetime
from operator import add

from msgspec import Struct
from msgspec.structs import astuple

from .policy import Limits


class Spent(Struct, frozen=True):
    sessions: int = 0
    turns: int = 0
    tokens: int = 0
    usd: float = 0.0

    def plus(self, more: Spent) -> Spent:
        """A refund of what was never charged is no credit."""
        sessions, turns, tokens, usd = map(add, astuple(self), astuple(more))
        return Spent(max(sessions, 0), max(turns, 0), tokens, usd)


def day_of(now: float) -> str:
    """The budget day, in UTC: the same for everyone who reads the store."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")


def session_refused(spent: Spent, limits: Limits) -> str:
    """Why no further session may start, or an empty string."""
    if limits.sessions is not None and spent.sessions >= limits.sessions:
        return f"all of {limits.sessions} sessions used"
    return turn_refused(spent, limits)


def turn_refused(spent: Spent, limits: Limits) -> str:
    """Why no further turn may start, or an empty string."""
    if limits.turns is not None and spent.turns >= limits.turns:
        return f"all of {limits.turns} turns used"
    if limits.tokens is not None and spent.tokens >= limits.tokens:
        return f"all of {limits.tokens:,} tokens used"
    if limits.usd is not None and spent.usd >= limits.usd:
        return f"all of ${limits.usd:.2f} used"
    return ""
