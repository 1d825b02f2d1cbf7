"""Which kinds of agent and tracker there are, and the class behind each: ours by name, others by entry point.

Nothing is imported before it is asked for, and our own kinds cannot be taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from .errors import ConfigurationError

if TYPE_CHECKING:
    from .agents.agent import Agent
    from .trackers.tracker import TrackerKind

AGENTS = {
    "acp": "sortie.agents.acp.acp:AcpAgent",
    "claude-code": "sortie.agents.claude.claude_code:ClaudeCode",
    "codex": "sortie.agents.codex.codex:Codex",
    "copilot-cli": "sortie.agents.copilot.copilot_cli:CopilotCli",
    "gemini": "sortie.agents.gemini.gemini:Gemini",
    "opencode": "sortie.agents.opencode.opencode:OpenCode",
    "command": "sortie.agents.command:CommandAgent",
    "mock": "sortie.agents.mock:MockAgent",
}
TRACKERS = {"file": "sortie.trackers.file:FileTracker"}

_AGENT_GROUP = "sortie.agents"
_TRACKER_GROUP = "sortie.trackers"


def agent_kinds() -> tuple[str, ...]:
    return plugin_kinds(_AGENT_GROUP, AGENTS)


def load_agent(kind: str) -> type[Agent]:
    """The class of this kind; raises `ConfigurationError` where there is none, or where it cannot be imported."""
    return cast("type[Agent]", load_plugin(_AGENT_GROUP, AGENTS, kind))


def tracker_kinds() -> tuple[str, ...]:
    return plugin_kinds(_TRACKER_GROUP, TRACKERS)


def load_tracker(kind: str) -> TrackerKind:
    """As `load_agent`."""
    return cast("TrackerKind", load_plugin(_TRACKER_GROUP, TRACKERS, kind))


def plugin_kinds(group: str, builtin: Mapping[str, str]) -> tuple[str, ...]:
    """Every kind that can be loaded from this entry point group, in alphabetical order."""
    return tuple(sorted({*builtin, *_installed(group)}))


def load_plugin(group: str, builtin: Mapping[str, str], kind: str) -> Any:
    """The class behind a kind; `builtin` maps kinds to `module:name` and wins over entry points.

    Entry points are read only for kinds that are not ours: looking through all installed packages is slow.
    """
    target = builtin.get(kind) or _installed(group).get(kind)
    if target is None:
        known = ", ".join(plugin_kinds(group, builtin))
        raise ConfigurationError(f'There is no {_noun(group)} of kind "{kind}".', fix=f"Use one of: {known}.")
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # importing somebody's package can fail in any way
        raise ConfigurationError(
            f'The {_noun(group)} of kind "{kind}" cannot be loaded from {target}: {type(error).__name__}: {error}.',
            fix="Install or repair the package that provides it.",
        ) from error


def _installed(group: str) -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=group)}


def _noun(group: str) -> str:
    return group.rpartition(".")[2].removesuffix("s")
