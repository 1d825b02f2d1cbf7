"""An agent without a process that plays a script: for trying out a workflow, and for tests of the engine.

agent: {kind: mock}
mock:
  turns:                      # one entry for each turn of an issue, over all its runs; the last one repeats
    - {lines: [looking], input_tokens: 100, output_tokens: 50}
    - {outcome: failed, reason: no network}
    - {status: needs-human-review, reason: please look}
  by_issue:
    DEMO-3: [{outcome: hang}]
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import anyio
from msgspec import Meta, Struct

from ..core.model import Finding, Usage
from ..errors import AgentError
from ..protocol.session_files import session_directory
from .agent import AgentSettings, Reporter, Said, SessionOpened, SessionOrder, TurnFinished, Used
from .options import check_options, read_options

Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]


class MockTurn(Struct, frozen=True, kw_only=True):
    outcome: Literal["completed", "failed", "auth", "rate_limited", "hang"] = "completed"
    status: Literal["", "blocked", "needs-human-review"] = ""
    reason: str = ""
    delay_ms: Count = 0
    lines: tuple[str, ...] = ()
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cost_usd: Amount = 0.0
    reset_seconds: Amount = 60.0


Script = Annotated[tuple[MockTurn, ...], Meta(min_length=1)]

DEFAULT_SCRIPT: Script = (
    MockTurn(
        lines=("Reading the issue.", "Making the change.", "Running the tests: all pass."),
        input_tokens=100,
        output_tokens=50,
        status="needs-human-review",
        reason="The change is ready to be looked at.",
    ),
)


_FAILURES = {
    "failed": (AgentError.TURN_FAILED, "The script says that this turn fails."),
    "auth": (AgentError.AUTH, "The agent is not logged in."),
    "rate_limited": (AgentError.RATE_LIMITED, "The limit is reached."),
}


class MockOptions(Struct, frozen=True, kw_only=True):
    """`turns` is for every issue that `by_issue` does not name."""

    turns: Script = DEFAULT_SCRIPT
    by_issue: dict[str, Script] = {}


class MockAgent:
    variables: ClassVar[tuple[str, ...]] = ()
    needs_login: ClassVar[bool] = False

    def __init__(self, options: MockOptions) -> None:
        self._options = options
        self._turns_done: Counter[str] = Counter()

    @classmethod
    def from_settings(cls, settings: AgentSettings) -> MockAgent:
        return cls(read_options(MockOptions, settings.options))

    @classmethod
    def check(cls, settings: AgentSettings) -> list[tuple[str, str]]:
        return check_options("mock", MockOptions, settings.options)

    def missing(self, environment: Mapping[str, str]) -> AgentError | None:  # noqa: ARG002 - it needs nothing
        return None

    async def examine(self, environment: Mapping[str, str]) -> list[Finding]:  # noqa: ARG002 - it needs nothing
        return [Finding("PASS", "program", "needs no program")]

    async def open(self, order: SessionOrder, reporter: Reporter) -> MockSession:
        reporter.report(SessionOpened(order.resume or order.run_id))
        return MockSession(self, order, reporter)

    def next_turn(self, order: SessionOrder) -> MockTurn:
        script = self._options.by_issue.get(order.identifier, self._options.turns)
        place = min(self._turns_done[order.issue_id], len(script) - 1)
        self._turns_done[order.issue_id] += 1
        return script[place]


class MockSession:
    def __init__(self, agent: MockAgent, order: SessionOrder, reporter: Reporter) -> None:
        self._agent = agent
        self._order = order
        self._reporter = reporter

    async def turn(self, prompt: str, number: int) -> None:  # noqa: ARG002 - the script knows what it does
        turn = self._agent.next_turn(self._order)
        for line in turn.lines:
            self._reporter.report(Said(line))
        await anyio.sleep(turn.delay_ms / 1000)
        usage = Usage(turn.input_tokens, turn.output_tokens, turn.cache_read_tokens, turn.cost_usd)
        if usage != Usage():
            self._reporter.report(Used(usage))
        if turn.status:
            _write_status(self._order.workspace_fd, turn.status, turn.reason)
        if turn.outcome == "hang":
            await anyio.sleep_forever()
        error = _failure(turn)
        self._reporter.report(TurnFinished(error.kind if error else "completed"))
        if error:
            raise error

    async def interrupt(self) -> None:
        """There is nobody to ask."""

    async def close(self) -> None:
        """There is nothing to end."""


def _failure(turn: MockTurn) -> AgentError | None:
    if turn.outcome not in _FAILURES:
        return None
    kind, said = _FAILURES[turn.outcome]
    until = time.time() + turn.reset_seconds if kind == AgentError.RATE_LIMITED else None
    return AgentError(kind, turn.reason or said, until=until)


def _write_status(workspace_fd: int, token: str, reason: str) -> None:
    """What an agent does with `mkdir -p .sortie` and `echo`, but never through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with session_directory(workspace_fd) as folder:
        status = os.open("status", flags, 0o644, dir_fd=folder)
        with os.fdopen(status, "w", encoding="utf-8") as file:
            file.write(f"{token}\n" + (f"reason: {reason}\n" if reason else ""))
