"""The operator's rules in the form `decide` reads them: states, slots, timeouts, budgets; and who exceeds them.

Sessions and turns are charged before they happen, so their limits are never exceeded. Tokens and money are
known only afterwards: a turn may end above the limit, but no turn starts there. A refusal names only the limit,
because what is spent still grows while it is repeated. All times are seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from operator import add

from msgspec import Struct
from msgspec.structs import astuple

from .model import Late, Overdue, like
from .model import Limits as Limits


class Policy(Struct, frozen=True, kw_only=True):
    """`failed_states` are those terminal ones in which an issue is over, but what depends on it cannot start.
    `provider` is the agent kind of every issue that names none of its own. `in_all` bounds what is spent on all
    issues together, however many days that takes. `tries_once`: an issue has one run, and when that has ended, in
    whatever way, its source says what becomes of it; nothing is resumed, tried again or held up by itself."""

    active_states: tuple[str, ...] = ()
    terminal_states: tuple[str, ...] = ()
    failed_states: tuple[str, ...] = ()
    handoff_state: str = ""
    provider: str = "command"
    max_concurrent: int = 10
    max_concurrent_by_state: dict[str, int] = {}
    max_turns: int = 20
    turn_timeout: float = 3600.0
    stall_timeout: float = 300.0
    backoff_cap: float = 300.0
    per_issue: Limits = Limits()
    per_day: Limits = Limits()
    in_all: Limits = Limits()
    tries_once: bool = False

    def is_active(self, state: str) -> bool:
        """Whether a tracker state means work; with no active states configured, all but terminal ones do."""
        if self.is_terminal(state):
            return False
        return not self.active_states or state.lower() in map(str.lower, self.active_states)

    def is_terminal(self, state: str) -> bool:
        return state.lower() in map(str.lower, self.terminal_states)

    def is_handoff(self, state: str) -> bool:
        """Whether an issue in this state waits for a person to review it."""
        return bool(self.handoff_state) and state.lower() == self.handoff_state.lower()

    def satisfies(self, state: str) -> bool:
        """Whether a blocker in this state holds nobody up any more: a failed dependency is not a finished one."""
        return self.is_terminal(state) and state.lower() not in map(str.lower, self.failed_states)


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


def budget_reason(refusal: str) -> str:
    """Which limit a refusal is about, whatever was said before it: sessions, turns, tokens or usd."""
    return next((what for what in ("sessions", "turns", "tokens") if refusal.endswith(f" {what} used")), "usd")


class Liveness(Struct, kw_only=True):
    """When one run was last heard. `turn_started` is None between turns, where hooks have limits of their own.
    `turn_timeout` and `stall_timeout` are the run's own, where it does not follow the policy in them."""

    issue_id: str
    run_id: str
    last_heard: float
    turn_started: float | None = None
    turn_timeout: float | None = None
    stall_timeout: float | None = None


def overdue(runs: list[Liveness], policy: Policy, now: float) -> tuple[Overdue, ...]:
    found = []
    for run in runs:
        for cause, limit, deadline in _deadlines(run, policy):
            if now >= deadline:
                found.append(like(Overdue, run, cause=cause, detail=_DETAILS[cause].format(limit)))
                break
    return tuple(found)


def next_deadline(runs: list[Liveness], policy: Policy) -> float | None:
    """The earliest time at which a run of these becomes overdue."""
    return min((deadline for run in runs for _, _, deadline in _deadlines(run, policy)), default=None)


_DETAILS: dict[Late, str] = {
    "timed_out": "the turn took longer than {:g} s (agent.turn_timeout_ms)",
    "stalled": "no sign of life for {:g} s (agent.stall_timeout_ms)",
}


def _deadlines(run: Liveness, policy: Policy) -> Iterator[tuple[Late, float, float]]:
    """What would be late, by which limit, and when."""
    if run.turn_started is None:
        return
    turn = policy.turn_timeout if run.turn_timeout is None else run.turn_timeout
    yield "timed_out", turn, run.turn_started + turn
    stall = policy.stall_timeout if run.stall_timeout is None else run.stall_timeout
    if stall > 0:
        yield "stalled", stall, max(run.last_heard, run.turn_started) + stall
