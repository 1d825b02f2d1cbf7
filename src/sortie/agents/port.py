"""The seam between a run and any coding agent: open a session, run turns in it, close it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ..core.model import Usage
from ..process.identity import Identity


class AgentSettings(Struct, frozen=True, kw_only=True):
    """What an agent is built from; `options` is the workflow block named after its kind."""

    kind: str
    command: str = ""
    options: Mapping[str, Any] = {}
    base: Path = Path()


class SessionOrder(Struct, frozen=True, kw_only=True):
    """Everything a session needs. `environment` is complete: nothing is inherited beyond it.

    `workspace_fd` is an open descriptor of the verified workspace directory; processes start there through it, so
    that a directory swapped in under the same name cannot become their working directory. `mcp_config` leads to our
    tools; it is None where they cannot be offered, and in the environment as SORTIE_MCP_CONFIG where they are.
    """

    run_id: str
    issue_id: str
    identifier: str
    attempt: int
    workspace: Path
    workspace_fd: int
    environment: Mapping[str, str]
    resume: str = ""
    mcp_config: Path | None = None


class Said(Struct, frozen=True):
    """One line of output, or of conversation."""

    text: str


class SessionOpened(Struct, frozen=True):
    """The agent's own name for the conversation, by which it can be resumed."""

    session_id: str


class Used(Struct, frozen=True):
    """Tokens and money used since the last report (never a running total)."""

    usage: Usage


AgentEvent = Said | SessionOpened | Used


class Reporter(Protocol):
    """How a session tells its run what happens."""

    async def process_started(self, identity: Identity) -> None:
        """Returns when the process is on record; no byte is exchanged with it before that."""

    def report(self, event: AgentEvent) -> None:
        """Any event counts as a sign of life. Never blocks, never raises."""


class Session(Protocol):
    async def turn(self, prompt: str, number: int) -> None:
        """Run one turn to its end. Returning means it completed; anything else raises `AgentError`.

        When cancelled, it leaves the ending of processes to `close`.
        """

    async def close(self) -> None:
        """End whatever is still alive of this session, descendants included. May be called twice."""


class Agent(Protocol):
    @classmethod
    def from_settings(cls, settings: AgentSettings) -> Agent:
        """Build it without touching the outside world."""

    @classmethod
    def check(cls, settings: AgentSettings) -> list[tuple[str, str]]:
        """What is wrong with the settings, as (key path such as `mock.turns`, one sentence)."""

    async def open(self, order: SessionOrder, reporter: Reporter) -> Session: ...
