"""Sortie: turns work items into coding-agent runs and never loses track of them.

Everything public is here and loaded on first use, so that `import sortie` costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

# `typing` takes longer to load than Python needs to start; type checkers know the name by itself.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agents.agent import Agent, AgentSession, AgentSettings, Reporter, SessionOrder
    from .core.conclude import Next, Outcome
    from .core.decide import decide
    from .core.model import AgentChoice, Blocker, Comment, Issue, IssueRef, Limits, Usage
    from .core.observe import Look
    from .core.policy import Policy
    from .core.records import Claim
    from .core.schedule import Schedule
    from .engine.orchestrator import Orchestrator
    from .engine.report import Summary
    from .engine.service import serve
    from .errors import (
        AgentError,
        ConfigurationError,
        HookError,
        SortieError,
        StoreError,
        TrackerError,
        WorkspaceError,
    )
    from .hosts.host import Host, HostInfo, RunLost, RunNotFound
    from .hosts.local_host import LocalHost
    from .plans.load import load_plan
    from .plans.plan import Plan
    from .protocol.status_file import Status, delete_status, parse_status, read_status
    from .runs.spec import AgentSpec, HooksSpec, PromptSpec, RunLimits, RunSpec, WorkspaceSpec
    from .sources.issues import IssueSource
    from .sources.plan_tasks import PlanSource
    from .sources.source import RunFacts, Source, Write
    from .trackers.tracker import Candidates, Tracker, TrackerSettings
    from .workspace.directory import workspace_key

_HOMES = {
    "agents.agent": ("Agent", "AgentSettings", "Reporter", "AgentSession", "SessionOrder"),
    "core.decide": ("decide",),
    "core.conclude": ("Next", "Outcome"),
    "core.model": ("AgentChoice", "Blocker", "Comment", "Issue", "IssueRef", "Limits", "Usage"),
    "core.observe": ("Look",),
    "core.policy": ("Policy",),
    "core.records": ("Claim",),
    "core.schedule": ("Schedule",),
    "engine.report": ("Summary",),
    "engine.orchestrator": ("Orchestrator",),
    "engine.service": ("serve",),
    "errors": (
        "AgentError",
        "ConfigurationError",
        "HookError",
        "SortieError",
        "StoreError",
        "TrackerError",
        "WorkspaceError",
    ),
    "hosts.host": ("Host", "HostInfo", "RunLost", "RunNotFound"),
    "hosts.local_host": ("LocalHost",),
    "plans.load": ("load_plan",),
    "plans.plan": ("Plan",),
    "protocol.status_file": ("Status", "delete_status", "parse_status", "read_status"),
    "runs.spec": ("AgentSpec", "HooksSpec", "PromptSpec", "RunLimits", "RunSpec", "WorkspaceSpec"),
    "sources.issues": ("IssueSource",),
    "sources.plan_tasks": ("PlanSource",),
    "sources.source": ("RunFacts", "Source", "Write"),
    "trackers.tracker": ("Candidates", "Tracker", "TrackerSettings"),
    "workspace.directory": ("workspace_key",),
}

__all__ = [
    "Agent",
    "AgentChoice",
    "AgentError",
    "AgentSession",
    "AgentSettings",
    "AgentSpec",
    "Blocker",
    "Candidates",
    "Claim",
    "Comment",
    "ConfigurationError",
    "HookError",
    "HooksSpec",
    "Host",
    "HostInfo",
    "Issue",
    "IssueRef",
    "IssueSource",
    "Limits",
    "LocalHost",
    "Look",
    "Next",
    "Orchestrator",
    "Outcome",
    "Plan",
    "PlanSource",
    "Policy",
    "PromptSpec",
    "Reporter",
    "RunFacts",
    "RunLimits",
    "RunLost",
    "RunNotFound",
    "RunSpec",
    "Schedule",
    "SessionOrder",
    "SortieError",
    "Source",
    "Status",
    "StoreError",
    "Summary",
    "Tracker",
    "TrackerError",
    "TrackerSettings",
    "Usage",
    "WorkspaceError",
    "WorkspaceSpec",
    "Write",
    "decide",
    "delete_status",
    "load_plan",
    "parse_status",
    "read_status",
    "serve",
    "workspace_key",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module 'sortie' has no attribute {name!r}")
