"""The tracker and the agent that a workflow asks for: found by kind, checked, built; and the workflow loaded so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..core.model import Issue
from ..errors import ConfigurationError, TrackerError
from ..plugins import kinds, load_agent, load_tracker
from ..protocol.session_files import SERVER
from ..tools.tracker_api import tracker_settings
from ..trackers.tracker import Candidates, GuardedTracker, Tracker
from ..trackers.trust import judged_tracker, rule_for
from ..workflow.address_check import address_problems
from ..workflow.config import Config
from ..workflow.loader import Examination, Workflow, check, examine, load
from ..workflow.problems import Problem
from ..workflow.variables import secret_values

if TYPE_CHECKING:
    from ..agents.agent import Agent, AgentSettings


def agent_settings(config: Config, kind: str = "") -> AgentSettings:
    """Of the workflow's agent, or of another kind by its own block. `mcp_config` in the block is ours to merge, not
    the agent's to know."""
    from ..agents.agent import AgentSettings

    agent = config.agent
    kind = kind or agent.kind
    options = {key: value for key, value in config.options.get(kind, {}).items() if key != "mcp_config"}
    return AgentSettings(
        kind=kind,
        command=agent.command if kind == agent.kind else "",
        options=options,
        base=config.base,
        read_timeout=agent.read_timeout,
    )


def problems(config: Config) -> list[tuple[str, str]]:
    """What the adapters themselves find wrong, as (key path, sentence); nothing is contacted, and nobody waits."""
    found: list[tuple[str, str]] = []
    try:
        found += load_tracker(config.tracker.kind).check(tracker_settings(config))
    except ConfigurationError as error:
        found.append(("tracker.kind", str(error)))
    try:
        found += load_agent(config.agent.kind).check(agent_settings(config))
    except ConfigurationError as error:
        found.append(("agent.kind", str(error)))
    try:
        operator_servers(config)
    except ConfigurationError as error:
        found.append((f"{config.agent.kind}.mcp_config", str(error)))
    return found


def problems_and_addresses(config: Config) -> list[tuple[str, str]]:
    """What is wrong with the addresses of channels as well. That takes a second, which a service that runs has not:
    of an address that it is given later, whoever sends says what is wrong."""
    return [*problems(config), *address_problems(config.notifications)]


def secrets(config: Config, environ: Mapping[str, str]) -> set[str]:
    """Every value that must not be shown: the workflow's own, and the keys that its agent is given."""
    return {*config.secrets, *secret_values(environ, load_agent(config.agent.kind).variables)}


def build_tracker(config: Config) -> Tracker:
    return GuardedTracker(judged_tracker(load_tracker(config.tracker.kind), tracker_settings(config)))


def judges_authors(config: Config) -> bool:
    """Whether the tracker's texts may be those of strangers."""
    rule = rule_for(load_tracker(config.tracker.kind), tracker_settings(config))
    return rule is not None and rule.trusted is not None


def peek(config: Config) -> Candidates | None:
    """What the tracker shows, where it can be read without asking anybody; raises `TrackerError`."""
    kind, settings = load_tracker(config.tracker.kind), tracker_settings(config)
    read = getattr(kind, "peek", None)
    if read is None:
        return None
    told: Candidates = read(settings)
    rule = rule_for(kind, settings)
    return rule.candidates(told, {})[0] if rule else told


def with_every_state(config: Config) -> Config:
    """So that the tracker lists all that it has."""
    return replace(config, tracker=replace(config.tracker, active_states=(), terminal_states=(), failed_states=()))


async def find_issue(tracker: Tracker, config: Config, name: str) -> Issue:
    """By id; else by the name people use, which is looked for among all that is in the tracker."""
    try:
        return await tracker.fetch_issue(name)
    except TrackerError as error:
        if error.kind != TrackerError.NOT_FOUND:
            raise
        everything = build_tracker(with_every_state(config))
        try:
            for issue in (await everything.fetch_candidates()).issues:
                if issue.identifier == name:
                    return issue
        finally:
            await everything.aclose()
        raise


def watched_files(config: Config) -> tuple[Path, ...]:
    """Where its issues are, if they are in files."""
    return load_tracker(config.tracker.kind).from_settings(tracker_settings(config)).watched_files()


def build_agent(config: Config) -> Agent:
    return load_agent(config.agent.kind).from_settings(agent_settings(config))


def operator_servers(config: Config) -> dict[str, Any]:
    """The operator's own MCP servers, from the file that `mcp_config` in the agent's block names."""
    name = config.options.get(config.agent.kind, {}).get("mcp_config")
    if not name:
        return {}
    path = config.base / str(name)
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.", fix="It must be a JSON object.") from error
    if not isinstance(found, dict) or not isinstance(found.get("mcpServers", {}), dict):
        raise ConfigurationError(f"{path} must be a JSON object, and so must its mcpServers.")
    if SERVER in found.get("mcpServers", {}):
        raise ConfigurationError(
            f'{path} uses the server name "{SERVER}", which is reserved.', fix="Give that server another name."
        )
    return found


def load_workflow(path: Path, environ: Mapping[str, str], env_file: Path | None) -> Workflow:
    """The workflow, checked by its adapters too; raises `ConfigurationError` with every problem."""
    return load(path, environ=environ, env_file=env_file, kinds=kinds(), inspect=problems_and_addresses)


def examine_workflow(
    path: Path, environ: Mapping[str, str], env_file: Path | None = None, *, trial: bool = True
) -> Examination:
    """Everything about the file, also where it is broken; nothing is raised for what is wrong with it."""
    return examine(
        path, environ=environ, env_file=env_file, kinds=kinds(), inspect=problems_and_addresses, trial=trial
    )


def check_workflow(path: Path, environ: Mapping[str, str], env_file: Path | None) -> list[Problem]:
    """Every error and warning in the order of the file; nothing is contacted or created."""
    return check(path, environ=environ, env_file=env_file, kinds=kinds(), inspect=problems_and_addresses)
