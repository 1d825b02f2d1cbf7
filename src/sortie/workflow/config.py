"""The workflow's settings as facts: every value checked, every default filled in, times in seconds, paths absolute.

Secrets are plain strings for those who need them, and never part of a `repr`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from ..core.model import TokenRates
from ..core.policy import Limits, Policy
from .yaml_lines import line_of


class CommentsConfig(Struct, frozen=True, kw_only=True):
    on_dispatch: bool = False
    on_completion: bool = False
    on_failure: bool = False


class TrackerConfig(Struct, frozen=True, kw_only=True):
    kind: str
    endpoint: str = ""
    api_key: str = ""
    project: str = ""
    active_states: tuple[str, ...] = ()
    terminal_states: tuple[str, ...] = ()
    query_filter: str = ""
    handoff_state: str = ""
    in_progress_state: str = ""
    comments: CommentsConfig = CommentsConfig()

    def __repr__(self) -> str:
        return f"TrackerConfig(kind={self.kind!r}, project={self.project!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("kind", self.kind), ("project", self.project)]


class WorkspaceConfig(Struct, frozen=True, kw_only=True):
    root: Path
    archive_keep_days: int = 14


class HooksConfig(Struct, frozen=True, kw_only=True):
    after_create: str = ""
    before_run: str = ""
    after_run: str = ""
    before_remove: str = ""
    timeout: float = 60.0


class AgentConfig(Struct, frozen=True, kw_only=True):
    """`stall_timeout` 0 means that silence is never taken for a stall; `env` names variables to pass on."""

    kind: str = "claude-code"
    command: str = ""
    turn_timeout: float = 3600.0
    read_timeout: float = 60.0
    stall_timeout: float = 300.0
    max_concurrent_agents: int = 10
    max_turns: int = 20
    max_retry_backoff: float = 300.0
    max_concurrent_agents_by_state: dict[str, int] = {}
    env: tuple[str, ...] = ()


class BudgetConfig(Struct, frozen=True, kw_only=True):
    per_issue: Limits
    per_day: Limits


class ToolsConfig(Struct, frozen=True, kw_only=True):
    """`credentials` says where the tool server has the tracker's key from: its workspace, or a broker.

    `transitions` says which issues an agent may move with its tools: those of the project, its own, or none.
    """

    credentials: str = "workspace"
    transitions: str = "project"


class Config(Struct, frozen=True, kw_only=True):
    """`options` holds the blocks named after tracker and agent kinds; `lines` is for `line_of`.

    `overrides` are the variables that this was read with, wherever they were set.
    """

    path: Path
    base: Path
    tracker: TrackerConfig
    polling_interval: float
    workspace: WorkspaceConfig
    hooks: HooksConfig
    agent: AgentConfig
    budget: BudgetConfig
    tools: ToolsConfig
    db_path: Path
    log_level: str
    log_format: str
    token_rates: dict[str, TokenRates]
    options: dict[str, dict[str, Any]]
    secrets: tuple[str, ...]
    overrides: dict[str, str]
    lines: dict[str, int]

    def line_of(self, key: str) -> int:
        """The line of a key such as `file.path`, or of the nearest section around it that is written down."""
        return line_of(self.lines, key)

    def policy(self) -> Policy:
        return Policy(
            active_states=self.tracker.active_states,
            terminal_states=self.tracker.terminal_states,
            handoff_state=self.tracker.handoff_state,
            provider=self.agent.kind,
            max_concurrent=self.agent.max_concurrent_agents,
            max_concurrent_by_state=self.agent.max_concurrent_agents_by_state,
            max_turns=self.agent.max_turns,
            turn_timeout=self.agent.turn_timeout,
            stall_timeout=self.agent.stall_timeout,
            backoff_cap=self.agent.max_retry_backoff,
            per_issue=self.budget.per_issue,
            per_day=self.budget.per_day,
        )

    def __repr__(self) -> str:
        return f"Config(path={str(self.path)!r}, tracker={self.tracker.kind!r}, agent={self.agent.kind!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("path", str(self.path)), ("tracker", self.tracker.kind), ("agent", self.agent.kind)]
