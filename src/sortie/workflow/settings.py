"""From the settings of a document to a `Config`: read against the schema, build, check the rules between."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from ..core.model import TokenRates
from ..core.policy import Limits
from .checks import Checks
from .config import (
    AgentConfig,
    BudgetConfig,
    CommentsConfig,
    Config,
    HooksConfig,
    ToolsConfig,
    TrackerConfig,
    WorkspaceConfig,
)
from .problems import Problems
from .reading import Kinds, Reading
from .variables import OURS, PREFIX, Variables, at_home, secrets_of
from .yaml_lines import Tree


def read_config(path: Path, tree: Tree, variables: Variables, kinds: Kinds, problems: Problems) -> Config:
    """The best reading of the settings; it may be used only where no error was noted."""
    reading = Reading(tree, variables, problems)
    values = reading.values
    reading.take_options({*chain(*kinds.values()), values["tracker"]["kind"], values["agent"]["kind"]})
    config = _config(path.absolute(), reading, variables, tree.lines)
    Checks(config, reading, problems).run(kinds, variables.values)
    return config


def _config(path: Path, reading: Reading, variables: Variables, lines: dict[str, int]) -> Config:
    values = reading.values
    base = path.parent
    tracker = _tracker(values["tracker"])
    agent = _agent(values["agent"])
    return Config(
        path=path,
        base=base,
        tracker=tracker,
        polling_interval=values["polling"]["interval_ms"],
        workspace=WorkspaceConfig(
            root=base / at_home(values["workspace"]["root"] or "workspaces", variables.values),
            archive_keep_days=values["workspace"]["archive_keep_days"],
        ),
        hooks=_hooks(values["hooks"]),
        agent=agent,
        budget=_budget(reading),
        tools=ToolsConfig(**values["tools"]),
        db_path=base / at_home(values["db_path"] or ".sortie.db", variables.values),
        log_level=values["logging"]["level"],
        log_format=values["logging"]["format"],
        token_rates={kind: TokenRates(**rates) for kind, rates in values["token_rates"].items()},
        options=reading.options,
        secrets=secrets_of(variables.values, agent.env, reading.options, tracker.api_key),
        overrides={
            name: value for name, value in variables.values.items() if name.startswith(PREFIX) and name not in OURS
        },
        lines=lines,
    )


def _tracker(values: dict[str, Any]) -> TrackerConfig:
    return TrackerConfig(**{**values, "comments": CommentsConfig(**values["comments"])})


def _hooks(values: dict[str, Any]) -> HooksConfig:
    return HooksConfig(
        after_create=values["after_create"],
        before_run=values["before_run"],
        after_run=values["after_run"],
        before_remove=values["before_remove"],
        timeout=values["timeout_ms"],
    )


def _agent(values: dict[str, Any]) -> AgentConfig:
    by_state = values["max_concurrent_agents_by_state"]
    return AgentConfig(
        kind=values["kind"],
        command=values["command"],
        turn_timeout=values["turn_timeout_ms"],
        read_timeout=values["read_timeout_ms"],
        stall_timeout=values["stall_timeout_ms"],
        max_concurrent_agents=values["max_concurrent_agents"],
        max_turns=values["max_turns"],
        max_retry_backoff=values["max_retry_backoff_ms"],
        max_concurrent_agents_by_state={name.lower(): slots for name, slots in by_state.items()},
        env=values["env"],
    )


def _budget(reading: Reading) -> BudgetConfig:
    per_issue = Limits(**reading.values["budget"]["per_issue"])
    legacy = reading.values["agent"]["max_sessions"]
    if legacy and not reading.is_given("budget.per_issue.sessions"):
        per_issue = Limits(sessions=legacy, turns=per_issue.turns, tokens=per_issue.tokens, usd=per_issue.usd)
    return BudgetConfig(per_issue=per_issue, per_day=Limits(**reading.values["budget"]["per_day"]))
