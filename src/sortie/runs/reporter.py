"""What an agent's session tells its run, passed on to the engine; kept is only what the outcome needs.

That is the name of the conversation, the sum of what was used, and the last lines said. An agent cannot fill the
store: what it reports there is counted, and goes to the log of the run alone when it is too much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar, assert_never

from ..agents.agent import (
    AgentEvent,
    ErrorReported,
    Heartbeat,
    LimitReported,
    Said,
    SessionOpened,
    StderrLine,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Used,
    is_session_id,
)
from ..core.events import ProcessStarted, SessionStarted
from ..core.model import Usage
from ..hosts.run_order import RunLink, RunOrder
from ..process.identity import ProcessIdentity

REASON_LINES = 5

# Of one run. An agent that finds more to complain of, or another name for its conversation each time, is broken.
_NOTES = 50
_SESSIONS = 20
_DETAIL = 1_000

# What one run can use at most. Numbers beyond it are mistakes or lies, and would not fit into the store.
_MOST_TOKENS = 10**12
_MOST_DOLLARS = 10.0**6

Amount = TypeVar("Amount", int, float)


class Listening:
    """The `Reporter` of one run; `on_usage` is called whenever the sum has changed."""

    def __init__(self, order: RunOrder, link: RunLink, on_usage: Callable[[], None]) -> None:
        self._order = order
        self._link = link
        self._on_usage = on_usage
        self.session_id = order.session_id
        self.usage = Usage()
        self._notes = self._sessions = 0
        self.last_lines: deque[str] = deque(maxlen=REASON_LINES)

    async def process_started(self, identity: ProcessIdentity) -> None:
        await self._link.record(
            ProcessStarted(
                at=self._link.now(),
                issue_id=self._order.issue.id,
                run_id=self._order.run_id,
                pid=identity.pid,
                start_ticks=identity.start_ticks,
                boot_id=identity.boot_id,
            )
        )

    def report(self, event: AgentEvent) -> None:
        match event:
            case Heartbeat():
                self._link.alive()
            case Said(text):
                if text.strip():
                    self.last_lines.append(text)
                self._link.sign("agent", text)
            case StderrLine(text):
                self._link.sign("stderr", text)
            case ToolStarted(name, detail):
                self._link.at_work()
                self._link.sign("uses", f"{name} {detail}".rstrip())
            case ToolFinished(name, failed, detail):
                self._link.sign("uses", f"{name} {'failed' if failed else 'done'}: {detail}".rstrip(": "))
            case Used(told, cost_follows):
                usage = self._believable(told)
                self.usage = self.usage.plus(usage)
                self._link.used(usage, cost_follows=cost_follows)
                self._on_usage()
            case LimitReported(detail, until):
                self._note("the provider speaks of its limit", _with_time(detail, until))
            case ErrorReported(detail):
                self._note("the agent reports an error", detail)
            case TurnFinished(reason):
                self._link.sign("turn", reason)
            case SessionOpened(session_id) if is_session_id(session_id):
                self._open_session(session_id)
            case SessionOpened(session_id):
                self._note("the agent names its conversation as no agent does", ascii(session_id[:100]))
            case _:
                assert_never(event)

    def _believable(self, told: Usage) -> Usage:
        so_far = self.usage
        return Usage(
            _within(told.input, _MOST_TOKENS - so_far.input),
            _within(told.output, _MOST_TOKENS - so_far.output),
            _within(told.cache_read, _MOST_TOKENS - so_far.cache_read),
            _within(told.cost_usd, _MOST_DOLLARS - so_far.cost_usd),
        )

    def _note(self, message: str, detail: str) -> None:
        self._notes += 1
        detail = detail[:_DETAIL]
        if self._notes > _NOTES:
            self._link.sign("note", f"{message}: {detail}")
            return
        self._link.note("warning", message, detail)
        if self._notes == _NOTES:
            self._link.note("warning", "further errors of this run are only in its log")

    def forget_session(self) -> None:
        """The agent will not go on with it: the next run begins a fresh one."""
        self._open_session("")

    def _open_session(self, session_id: str) -> None:
        self._sessions += 1
        if self._sessions > _SESSIONS:
            return
        self.session_id = session_id
        self._link.post(
            SessionStarted(
                at=self._link.now(),
                issue_id=self._order.issue.id,
                run_id=self._order.run_id,
                session_id=session_id,
            )
        )


def _within(amount: Amount, room: Amount) -> Amount:
    """At least nothing, also for what is not a number, and at most what there is room for."""
    return min(amount, room) if amount > 0 else type(room)(0)


def _with_time(detail: str, until: float | None) -> str:
    if until is None:
        return detail
    try:
        return f"{detail} (until {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M:%S} UTC)"
    except (ValueError, OverflowError, OSError):
        return detail  # the agent named a time that no calendar has
