"""The seam between a run and any coding agent: open a session, run turns in it, interrupt it, close it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from ..core.model import Finding, Usage
from ..errors import AgentError
from ..process.identity import ProcessIdentity


class AgentSettings(Struct, frozen=True, kw_only=True):
    """What an agent is built from; `options` is the workflow block named after its kind.

    `read_timeout` is how long it may take to answer where an answer is due at once, in seconds.
    """

    kind: str
    command: str = ""
    options: Mapping[str, Any] = {}
    base: Path = Path()
    read_timeout: float = 30.0


class SessionOrder(Struct, frozen=True, kw_only=True):
    """Everything a session needs. `environment` is complete: nothing is inherited beyond it.

    `workspace_fd` is an open descriptor of the verified workspace directory; processes start there through it, so
    that a directory swapped in under the same name cannot become their working directory. `mcp_config` leads to our
    tools; it is None where they cannot be offered, and in the environment as SORTIE_MCP_CONFIG where they are.
    `resume` is the conversation to go on with, `resume_cost` what it has cost so far, in US dollars.
    """

    run_id: str
    issue_id: str
    identifier: str
    attempt: int
    workspace: Path
    workspace_fd: int
    environment: Mapping[str, str]
    resume: str = ""
    resume_cost: float = 0.0
    mcp_config: Path | None = None


class Said(Struct, frozen=True):
    """One line of what the agent itself says; the last ones tell why it stopped where it gives no other reason."""

    text: str


class StderrLine(Struct, frozen=True):
    """A line of its standard error, or a remark among its events: for the log, not for the conversation."""

    text: str


class Heartbeat(Struct, frozen=True):
    """Something came that says nothing else."""


class SessionOpened(Struct, frozen=True):
    """The agent's own name for the conversation, by which it can be resumed."""

    session_id: str


class ModelNamed(Struct, frozen=True):
    """The model that the agent works with from now on, in its own words."""

    model: str


class ToolStarted(Struct, frozen=True):
    """The agent uses one of its tools."""

    name: str
    detail: str = ""


class ToolFinished(Struct, frozen=True):
    name: str
    failed: bool = False
    detail: str = ""


class Used(Struct, frozen=True):
    """Tokens and money used since the last report (never a running total).

    `input` counts every token sent, those read from a cache included. `cost_follows` says that the agent tells
    what these tokens cost with a later report of the same turn.
    """

    usage: Usage
    cost_follows: bool = False


class LimitReported(Struct, frozen=True):
    """The provider speaks of its limit; `until` is when that ends, where it is known."""

    detail: str
    until: float | None = None


class ErrorReported(Struct, frozen=True):
    """An error that the agent reports; whether the turn fails because of it shows at its end."""

    detail: str


class TurnFinished(Struct, frozen=True):
    """The last event of each turn: `completed`, or the kind of the `AgentError` that is raised."""

    reason: str


AgentEvent = (
    Said
    | StderrLine
    | Heartbeat
    | SessionOpened
    | ModelNamed
    | ToolStarted
    | ToolFinished
    | Used
    | LimitReported
    | ErrorReported
    | TurnFinished
)


_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.:@/-]{0,199}", re.ASCII)


def is_session_id(text: str) -> bool:
    """Whether it can be the name of a conversation. It will be stored, and stand on a command line to resume it."""
    return _SESSION_ID.fullmatch(text) is not None


_MODEL = re.compile(r"[\w.:@/+\[\]()-][\w.:@/+\[\]() -]{0,99}", re.ASCII)


def is_model(text: str) -> bool:
    """Whether it can be the name of a model. It will be stored, and head a column that people read."""
    return _MODEL.fullmatch(text) is not None


class Reporter(Protocol):
    """How a session tells its run what happens."""

    async def process_started(self, identity: ProcessIdentity) -> None:
        """Returns when the process is on record; no byte is exchanged with it before that."""

    def report(self, event: AgentEvent) -> None:
        """Any event counts as a heartbeat. Never blocks, never raises."""


class AgentSession(Protocol):
    async def turn(self, prompt: str, number: int) -> None:
        """Run one turn to its end. Returning means it completed; anything else raises `AgentError`.

        When cancelled, it leaves the ending of processes to `close`.
        """

    async def interrupt(self) -> None:
        """Ask the turn under way to end, and give the agent a moment to put its conversation away.

        Returns within seconds, whatever the agent does. Nothing happens where no turn is under way.
        """

    async def close(self) -> None:
        """End whatever is still alive of this session, descendants included. May be called twice."""


class Agent(Protocol):
    variables: ClassVar[tuple[str, ...]]
    """The environment variables that it needs beyond those every agent gets: its keys, its endpoint."""

    needs_login: ClassVar[bool]
    """Whether a provider may refuse it: then only its first answer shows that it works."""

    @classmethod
    def from_settings(cls, settings: AgentSettings) -> Agent:
        """Build it without touching the outside world."""

    @classmethod
    def check(cls, settings: AgentSettings) -> list[tuple[str, str]]:
        """What is wrong with the settings, as (key path such as `mock.turns`, one sentence)."""

    def missing(self, environment: Mapping[str, str]) -> AgentError | None:
        """Why it cannot start, seen without starting or contacting anything; None where nothing is known to be
        wrong. Asked before runs start and, while it has an answer, every few seconds until that is gone."""

    async def examine(self, environment: Mapping[str, str]) -> list[Finding]:
        """Whether it could start with this environment: program, version, login. Contacts no provider."""

    async def open(self, order: SessionOrder, reporter: Reporter) -> AgentSession: ...
