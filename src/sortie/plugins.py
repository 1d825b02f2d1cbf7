"""Which kinds of agent and tracker there are, and the class behind each: ours by name, others by entry point.

Nothing is imported before it is asked for, and our own kinds cannot be taken over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
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
TRACKERS = {
    "file": "sortie.trackers.file:FileTracker",
    "github": "sortie.trackers.github.github:GitHubTracker",
    "jira": "sortie.trackers.jira.jira:JiraTracker",
}

_AGENT_GROUP = "sortie.agents"
_TRACKER_GROUP = "sortie.trackers"


class Kinds(Collection[str]):
    """The names of one entry point group, in alphabetical order, ours among them.

    Those of other packages are looked for when ours are not the answer: to look through all that is installed is
    slow.
    """

    def __init__(self, group: str, builtin: Mapping[str, str]) -> None:
        self._group = group
        self._builtin = builtin

    def __contains__(self, kind: object) -> bool:
        return kind in self._builtin or kind in self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def _all(self) -> list[str]:
        return sorted({*self._builtin, *installed(self._group)})


def kinds() -> dict[str, Kinds]:
    """As a workflow is checked with."""
    return {"tracker": Kinds(_TRACKER_GROUP, TRACKERS), "agent": Kinds(_AGENT_GROUP, AGENTS)}


def load_agent(kind: str) -> type[Agent]:
    """The class of this kind; raises `ConfigurationError` where there is none, or where it cannot be imported."""
    return cast("type[Agent]", load_plugin(_AGENT_GROUP, AGENTS, kind))


def load_tracker(kind: str) -> TrackerKind:
    """As `load_agent`."""
    return cast("TrackerKind", load_plugin(_TRACKER_GROUP, TRACKERS, kind))


def load_plugin(group: str, builtin: Mapping[str, str], kind: str) -> Any:
    """The class behind a kind; `builtin` maps kinds to `module:name` and wins over entry points.

    Entry points are read only for kinds that are not ours: looking through all installed packages is slow.
    """
    target = builtin.get(kind) or installed(group).get(kind)
    if target is None:
        known = ", ".join(Kinds(group, builtin))
        raise ConfigurationError(f'There is no {_noun(group)} of kind "{kind}".', fix=f"Use one of: {known}.")
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # importing somebody's package can fail in any way
        raise ConfigurationError(
            f'The {_noun(group)} of kind "{kind}" cannot be loaded from {target}: {type(error).__name__}: {error}.',
            fix="Install or repair the package that provides it.",
        ) from error


def installed(group: str) -> dict[str, str]:
    """What other packages offer in this entry point group: the `module:name` of each, by its own name."""
    if not _is_offered(group):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=group)}


def _is_offered(group: str) -> bool:
    """Whether anything installed can have such an entry point. Mostly nothing has, and to look at their lists takes
    less than to load what reads them."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    section = f"[{group}]".encode()
    for place in sys.path:
        try:
            found = os.listdir(place or ".")  # noqa: PTH208 - half the time of Path
        except NotADirectoryError:
            return True  # an archive with packages in it
        except OSError:
            continue
        for name in found:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            try:
                if section in Path(place, name, "entry_points.txt").read_bytes():
                    return True
            except OSError:
                continue  # it has none
    return False


def _noun(group: str) -> str:
    return group.rpartition(".")[2].removesuffix("s")
