"""The seam between the engine and the place where a run executes.

The engine decides and remembers; a host prepares the workspace, runs the agent turn by turn, and reports. Only what
is in `RunOrder` travels to it and only `RunLink` calls and an `Outcome` come back, so a host may be far away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ..agents.agent import Agent
from ..core.conclude import Outcome
from ..core.events import AnyEvent, Level, WorkspaceMade
from ..core.model import Issue, Usage
from ..workflow.loader import Workflow


class RunOrder(Struct, frozen=True, kw_only=True):
    """One run: which issue, by which rules (a snapshot), by which agent, resuming what.

    `workspace` is what the store knows of the workspace of that name, `workspace_used` whether an agent ever worked
    in it; anything else in its place goes to `archive`.
    """

    store_id: str
    run_id: str
    attempt: int
    issue: Issue
    workflow: Workflow
    agent: Agent
    session_id: str = ""
    session_cost: float = 0.0
    workspace: WorkspaceMade | None = None
    workspace_used: bool = False
    archive: Path
    tool_log: Path
    broker_socket: Path


class RunLink(Protocol):
    """What a running run may ask of the engine and must tell it."""

    async def record(self, *events: AnyEvent) -> None:
        """Returns when the events are durable."""

    def post(self, *events: AnyEvent) -> None:
        """Make the events part of the log, in order, without waiting for the disk."""

    async def begin_turn(self, turn: int) -> str:
        """Charge one turn; a non-empty answer is the reason why it may not start."""

    async def end_turn(self, turn: int) -> None:
        """The turn completed."""

    async def refresh_issue(self) -> Issue | None:
        """The issue as the tracker shows it now, or as last known; None where it is gone."""

    def note(self, level: Level, message: str, detail: str = "") -> None:
        """Something a person will want to read."""

    def sign(self, source: str, text: str) -> None:
        """A line from the agent or a hook: a sign of life, and an entry in the log of the run."""

    def alive(self) -> None:
        """A sign of life without words."""

    def at_work(self) -> None:
        """The agent does something that it could not do without its program and its login."""

    def used(self, usage: Usage, *, cost_follows: bool = False) -> None:
        """Tokens and money used since the last call; `cost_follows` where a later call tells their cost."""

    async def call_tool(self, tool: str, arguments: object) -> dict[str, Any]:
        """Answer for a tool server that holds no credentials."""
        ...

    def now(self) -> float: ...


class Execution(Protocol):
    """One run in progress."""

    async def execute(self) -> Outcome:
        """Run to the end, whatever happens on the way; only cancellation raises."""

    def stop(self) -> None:
        """End the agent and finish early; `execute` then returns what was reached."""


class Host(Protocol):
    def prepare(self, order: RunOrder, link: RunLink) -> Execution: ...
