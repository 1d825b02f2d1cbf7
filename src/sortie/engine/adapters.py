"""The tracker and the agent that a workflow asks for: found by kind, checked, built."""

from __future__ import annotations

from collections.abc import Mapping

from ..agents import registry as agents
from ..agents.agent import Agent, AgentSettings
from ..errors import ConfigurationError
from ..runs.toolkit import operator_config
from ..tools.local import tracker_settings
from ..trackers import registry as trackers
from ..trackers.guard import GuardedTracker
from ..trackers.tracker import Tracker
from ..workflow.config import Config
from ..workflow.variables import secret_values


def agent_settings(config: Config) -> AgentSettings:
    """`mcp_config` in the agent's block is ours to merge, not the agent's to know."""
    agent = config.agent
    options = {key: value for key, value in config.options.get(agent.kind, {}).items() if key != "mcp_config"}
    return AgentSettings(
        kind=agent.kind,
        command=agent.command,
        options=options,
        base=config.base,
        read_timeout=agent.read_timeout,
    )


def kinds() -> dict[str, tuple[str, ...]]:
    return {"tracker": trackers.kinds(), "agent": agents.kinds()}


def problems(config: Config) -> list[tuple[str, str]]:
    """What the adapters themselves find wrong, as (key path, sentence); nothing is contacted."""
    found: list[tuple[str, str]] = []
    try:
        found += trackers.load(config.tracker.kind).check(tracker_settings(config))
    except ConfigurationError as error:
        found.append(("tracker.kind", str(error)))
    try:
        found += agents.load(config.agent.kind).check(agent_settings(config))
    except ConfigurationError as error:
        found.append(("agent.kind", str(error)))
    try:
        operator_config(config)
    except ConfigurationError as error:
        found.append((f"{config.agent.kind}.mcp_config", str(error)))
    return found


def secrets(config: Config, environ: Mapping[str, str]) -> set[str]:
    """Every value that must not be shown: the workflow's own, and the keys that its agent is given."""
    return {*config.secrets, *secret_values(environ, agents.load(config.agent.kind).variables)}


def build_tracker(config: Config) -> Tracker:
    return GuardedTracker(trackers.load(config.tracker.kind).from_settings(tracker_settings(config)))


def build_agent(config: Config) -> Agent:
    return agents.load(config.agent.kind).from_settings(agent_settings(config))
