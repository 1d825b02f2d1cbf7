"""All settings of a workflow, each once: an annotated field says its key, kind, default and bounds.

The key is the name of the field; for `Milliseconds`, with `_ms` after it. Where the type alone says the kind, there
is no annotation: see `fields.kind_of`. Once read, times are seconds and paths absolute. Secrets are plain strings
for those who need them, and never part of a `repr`.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct

from ..core.model import TokenRates
from ..core.policy import Limits, Policy
from ..protocol.web_address import is_loopback
from .channels import ChannelConfig
from .fields import Address, FilePath, Flag, Milliseconds, PlainText, Texts, Token, WebAddress, Whole

# Sections of other implementations that are refused.
UNSUPPORTED = frozenset({"self_review", "reactions", "ci_feedback", "worker"})
# Those that concern nobody but the service: what agents are given to read the workflow with has none of them.
OF_THE_SERVICE = frozenset({"server", "notifications"})
DEFAULT_PORT = 7678
SHORTEST_TOKEN = 16
MOVED = {"tracker.path": "write the path into a block of its own: file: {path: ...}"}


class CommentsConfig(Struct, frozen=True, kw_only=True):
    on_dispatch: Annotated[bool, Flag(env=True)] = False
    on_completion: Annotated[bool, Flag(env=True)] = False
    on_failure: Annotated[bool, Flag(env=True)] = False


class TrackerConfig(Struct, frozen=True, kw_only=True):
    kind: Annotated[str, PlainText(filled=True, env=True)] = ""
    endpoint: Annotated[str, PlainText(env=True, expand="whole")] = ""
    api_key: Annotated[str, PlainText(env=True, expand="anywhere", secret=True)] = ""
    project: Annotated[str, PlainText(env=True, expand="whole")] = ""
    active_states: Annotated[tuple[str, ...], Texts(env=True)] = ()
    terminal_states: Annotated[tuple[str, ...], Texts(env=True)] = ()
    failed_states: Annotated[tuple[str, ...], Texts(env=True)] = ()
    query_filter: Annotated[str, PlainText(env=True, expand="whole")] = ""
    handoff_state: Annotated[str, PlainText(filled=True, env=True, expand="whole")] = ""
    in_progress_state: Annotated[str, PlainText(filled=True, env=True, expand="whole")] = ""
    trusted_authors: Annotated[tuple[str, ...], Texts(env=True)] = ()
    excluded_authors: Annotated[tuple[str, ...], Texts(env=True)] = ()
    calls_per_minute: Annotated[int, Whole(least=1, env=True)] = 120
    comments: CommentsConfig = CommentsConfig()

    def __repr__(self) -> str:
        return f"TrackerConfig(kind={self.kind!r}, project={self.project!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("kind", self.kind), ("project", self.project)]


class PollingConfig(Struct, frozen=True, kw_only=True):
    interval: Annotated[float, Milliseconds(least=100, env=True)] = 30.0


class WorkspaceConfig(Struct, frozen=True, kw_only=True):
    root: Annotated[Path, FilePath(env=True, expand="anywhere")] = Path("workspaces")
    archive_keep_days: Annotated[int, Whole(least=0)] = 14


class HooksConfig(Struct, frozen=True, kw_only=True):
    after_create: str = ""
    before_run: str = ""
    after_run: str = ""
    before_remove: str = ""
    timeout: Annotated[float, Milliseconds(least=1)] = 60.0


class AgentConfig(Struct, frozen=True, kw_only=True):
    """`stall_timeout` 0 means that silence is never taken for a stall; `env` names variables to pass on.

    `max_sessions` is the older name of `budget.per_issue.sessions`, and counts only there.
    """

    kind: Annotated[str, PlainText(filled=True, env=True)] = "claude-code"
    command: Annotated[str, PlainText(env=True)] = ""
    turn_timeout: Annotated[float, Milliseconds(least=1, env=True)] = 3600.0
    read_timeout: Annotated[float, Milliseconds(least=1, env=True)] = 60.0
    stall_timeout: Annotated[float, Milliseconds(least=0, env=True)] = 300.0
    max_concurrent_agents: Annotated[int, Whole(least=1, env=True)] = 10
    max_turns: Annotated[int, Whole(least=1, env=True)] = 20
    max_retry_backoff: Annotated[float, Milliseconds(least=1, env=True)] = 300.0
    max_concurrent_agents_by_state: dict[str, Annotated[int, Whole(least=1)]] = {}
    max_sessions: Annotated[int, Whole(least=0, env=True)] = 0
    env: Annotated[tuple[str, ...], Texts(of_variables=True)] = ()


class BudgetConfig(Struct, frozen=True, kw_only=True):
    """In a budget, 0 and `unlimited` both mean: no bound."""

    per_issue: Limits = Limits(sessions=10, turns=100, tokens=20_000_000, usd=20.0)
    per_day: Limits = Limits(sessions=200, turns=2000, tokens=200_000_000, usd=200.0)


class ToolsConfig(Struct, frozen=True, kw_only=True):
    """`credentials` says where the tool server has the tracker's key from: its workspace, or a broker.

    `transitions` says which issues an agent may move with its tools: those of the project, its own, or none.
    """

    credentials: Literal["workspace", "broker"] = "workspace"
    transitions: Literal["project", "own", "none"] = "project"


class LoggingConfig(Struct, frozen=True, kw_only=True):
    level: Literal["debug", "info", "warn", "error"] = "info"
    format: Literal["text", "json"] = "text"


_TOKEN = Token(env=True, expand="anywhere", secret=True, shortest=SHORTEST_TOKEN)
_SECRET = PlainText(env=True, expand="anywhere", secret=True, shortest=SHORTEST_TOKEN)


class TokensConfig(Struct, frozen=True, kw_only=True):
    """What opens the dashboard from anywhere: to look, to change things too, or for figures alone."""

    read: Annotated[str, _TOKEN] = ""
    operate: Annotated[str, _TOKEN] = ""
    metrics: Annotated[str, _TOKEN] = ""

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(token for token in (self.read, self.operate, self.metrics) if token)

    def __repr__(self) -> str:
        return f"TokensConfig({len(self.given)} given)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("given", len(self.given))]


class ServerConfig(Struct, frozen=True, kw_only=True):
    """Where the dashboard listens, and who may use it. A `port` of None was asked for by nobody: it is
    `DEFAULT_PORT` where that is free; 0 means no server. `public_url` is how a proxy in front of it is called."""

    port: Annotated[int | None, Whole(least=0, most=65535, env=True)] = None
    host: Annotated[str, Address(env=True)] = "127.0.0.1"
    public_url: Annotated[str, WebAddress(env=True)] = ""
    webhook_secret: Annotated[str, _SECRET] = ""
    tokens: TokensConfig = TokensConfig()

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*self.tokens.given, *([self.webhook_secret] if self.webhook_secret else []))

    @property
    def is_exposed(self) -> bool:
        """Whether other machines can reach it while nothing tells who may use it."""
        return not is_loopback(self.host) and not self.tokens.given

    def __repr__(self) -> str:
        return f"ServerConfig(port={self.port!r}, host={self.host!r}, {self.tokens!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("port", self.port), ("host", self.host), ("tokens", self.tokens)]


class WorkflowSettings(Struct, frozen=True, kw_only=True):
    """What can be written between the two lines `---`, beside the blocks of trackers and agents."""

    tracker: TrackerConfig = TrackerConfig()
    polling: PollingConfig = PollingConfig()
    workspace: WorkspaceConfig = WorkspaceConfig()
    hooks: HooksConfig = HooksConfig()
    agent: AgentConfig = AgentConfig()
    budget: BudgetConfig = BudgetConfig()
    tools: ToolsConfig = ToolsConfig()
    db_path: Annotated[Path, FilePath(env=True, expand="anywhere")] = Path(".sortie.db")
    worklog: Annotated[Path | None, FilePath(env=True, expand="anywhere")] = None
    logging: LoggingConfig = LoggingConfig()
    server: ServerConfig = ServerConfig()
    notifications: dict[str, ChannelConfig] = {}
    token_rates: dict[str, TokenRates] = {}


class Config(WorkflowSettings, frozen=True, kw_only=True, dict=True):
    """The settings as facts, and what else is known of the file.

    `options` holds the blocks named after tracker and agent kinds; `overrides` are the variables that this was read
    with, wherever they were set.
    """

    path: Path
    options: dict[str, dict[str, Any]]
    secrets: tuple[str, ...]
    overrides: dict[str, str]

    @property
    def base(self) -> Path:
        """Where relative paths start."""
        return self.path.parent

    def policy(self) -> Policy:
        return self._policy

    @cached_property
    def _policy(self) -> Policy:
        return Policy(
            active_states=self.tracker.active_states,
            terminal_states=self.tracker.terminal_states,
            failed_states=self.tracker.failed_states,
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
