"""What an agent's session tells its run, passed on as messages; kept is only what the outcome needs.

That is the name of the conversation and the last lines said. An agent cannot fill the store: what it reports there
is counted, and goes to the log of the run alone when it is too much.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import assert_never

from ..agents.agent import (
    AgentEvent,
    ErrorReported,
    Heartbeat,
    LimitReported,
    ModelNamed,
    Said,
    SessionOpened,
    StderrLine,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Used,
    is_model,
    is_session_id,
)
from ..process.identity import ProcessIdentity
from .channel import Channel
from .messages import AtWork, ConversationNamed, Heard, Line, ProcessSpawned, Remark
from .usage_meter import UsageMeter

REASON_LINES = 5

# Of one run. An agent that finds more to complain of, or each time another name for its conversation or its model,
# is broken.
_NOTES = 50
_SESSIONS = 20
_MODELS = 20
_DETAIL = 1_000


class RunReporter:
    """The `Reporter` of one run."""

    def __init__(self, channel: Channel, session_id: str, meter: UsageMeter) -> None:
        self._channel = channel
        self._meter = meter
        self.session_id = session_id
        self._notes = self._sessions = self._models = 0
        self._works = False
        self.last_lines: deque[str] = deque(maxlen=REASON_LINES)

    async def process_started(self, identity: ProcessIdentity) -> None:
        await self._channel.ask(
            ProcessSpawned(pid=identity.pid, start_ticks=identity.start_ticks, boot_id=identity.boot_id)
        )

    def report(self, event: AgentEvent) -> None:
        match event:
            case Heartbeat():
                self._channel.tell(Heard())
            case Said(text):
                if text.strip():
                    self.last_lines.append(text)
                self._line("agent", text)
            case StderrLine(text):
                self._line("stderr", text)
            case ToolStarted(name, detail):
                self._at_work()
                self._line("uses", f"{name} {detail}".rstrip())
            case ToolFinished(name, failed, detail):
                self._line("uses", f"{name} {'failed' if failed else 'done'}: {detail}".rstrip(": "))
            case Used(told, cost_follows):
                self._meter.add(told, cost_follows=cost_follows)
                self._channel.tell(Heard())
                if told.total > 0:
                    self._at_work()
            case LimitReported(detail, until):
                self._remark("the provider speaks of its limit", _with_time(detail, until))
            case ErrorReported(detail):
                self._remark("the agent reports an error", detail)
            case TurnFinished(reason):
                self._line("turn", reason)
            case SessionOpened(session_id) if is_session_id(session_id):
                self._open_session(session_id)
            case SessionOpened(session_id):
                self._remark("the agent names its conversation as no agent does", ascii(session_id[:100]))
            case ModelNamed(model):
                self._name_model(model)
            case _:
                assert_never(event)

    def forget_session(self) -> None:
        """The agent will not go on with it: the next run begins a fresh one."""
        self._open_session("")

    def _line(self, source: str, text: str) -> None:
        self._channel.tell(Line(source=source, text=text))

    def _at_work(self) -> None:
        if not self._works:
            self._works = True
            self._channel.tell(AtWork())

    def _remark(self, message: str, detail: str) -> None:
        self._notes += 1
        detail = detail[:_DETAIL]
        if self._notes > _NOTES:
            self._line("note", f"{message}: {detail}")
            return
        self._channel.tell(Remark(level="warning", message=message, detail=detail))
        if self._notes == _NOTES:
            self._channel.tell(Remark(level="warning", message="further errors of this run are only in its log"))

    def _open_session(self, session_id: str) -> None:
        self._sessions += 1
        if self._sessions > _SESSIONS:
            return
        self.session_id = session_id
        self._channel.tell(ConversationNamed(session_id=session_id))

    def _name_model(self, model: str) -> None:
        self._models += 1
        if self._models <= _MODELS and is_model(model):
            self._meter.name_model(model)


def _with_time(detail: str, until: float | None) -> str:
    if until is None:
        return detail
    try:
        return f"{detail} (until {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M:%S} UTC)"
    except (ValueError, OverflowError, OSError):
        return detail  # the agent named a time that no calendar has
