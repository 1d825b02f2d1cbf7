"""The operator's rules in the form `decide` reads them: states, slots, timeouts, budgets. Times are seconds."""

from __future__ import annotations

from msgspec import Struct

from .model import Limits as Limits


class Policy(Struct, frozen=True, kw_only=True):
    """`failed_states` are those terminal ones in which an issue is over, but what depends on it cannot start.
    `provider` is the agent kind of every issue that names none of its own."""

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

    def is_active(self, state: str) -> bool:
        """Whether a tracker state means work; with no active states configured, all but terminal ones do."""
        name = state.lower()
        if self.is_terminal(state):
            return False
        return not self.active_states or any(name == active.lower() for active in self.active_states)

    def is_terminal(self, state: str) -> bool:
        name = state.lower()
        return any(name == terminal.lower() for terminal in self.terminal_states)

    def satisfies(self, state: str) -> bool:
        """Whether a blocker in this state holds nobody up any more: a failed dependency is not a finished one."""
        return self.is_terminal(state) and state.lower() not in {name.lower() for name in self.failed_states}
