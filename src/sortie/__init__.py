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
    from .engine.turn_taking import take_turn
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
    from .peers.author import Author
    from .peers.charter.charter import Charter, parse_charter
    from .peers.charter.charter_file import CharterFile
    from .peers.finding import Finding
    from .peers.mailbox.draft import Draft
    from .peers.mailbox.mailbox_file import MailboxFile
    from .peers.mailbox.message import Message
    from .peers.mailbox.parse import parse as parse_mailbox
    from .peers.place import Place, find_place, place_at
    from .peers.settings import PeerSettings, load_settings
    from .peers.turns.conclude import TurnReport
    from .peers.worklog.event import Event
    from .peers.worklog.events import events_of
    from .peers.worklog.parse import parse as parse_worklog
    from .peers.worklog.worklog_file import Cursor, WorklogFile
    from .plans.load import load_plan
    from .plans.plan import Plan
    from .protocol.status_file import Status, delete_status, parse_status, read_status
    from .runs.spec import AgentSpec, HooksSpec, PromptSpec, RunLimits, RunSpec, WorkspaceSpec
    from .sources.issues import IssueSource
    from .sources.peer_turns import PeerSource
    from .sources.plan_tasks import PlanSource
    from .sources.source import RunFacts, Source, Write
    from .trackers.tracker import Candidates, Tracker, TrackerSettings
    from .trackers.webhooks import is_authentic as verify_webhook
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
    "engine.turn_taking": ("take_turn",),
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
    "peers.author": ("Author",),
    "peers.charter.charter": ("Charter", "parse_charter"),
    "peers.charter.charter_file": ("CharterFile",),
    "peers.finding": ("Finding",),
    "peers.mailbox.draft": ("Draft",),
    "peers.mailbox.mailbox_file": ("MailboxFile",),
    "peers.mailbox.message": ("Message",),
    "peers.place": ("Place", "find_place", "place_at"),
    "peers.settings": ("PeerSettings", "load_settings"),
    "peers.turns.conclude": ("TurnReport",),
    "peers.worklog.event": ("Event",),
    "peers.worklog.events": ("events_of",),
    "peers.worklog.worklog_file": ("Cursor", "WorklogFile"),
    "plans.load": ("load_plan",),
    "plans.plan": ("Plan",),
    "protocol.status_file": ("Status", "delete_status", "parse_status", "read_status"),
    "runs.spec": ("AgentSpec", "HooksSpec", "PromptSpec", "RunLimits", "RunSpec", "WorkspaceSpec"),
    "sources.issues": ("IssueSource",),
    "sources.peer_turns": ("PeerSource",),
    "sources.plan_tasks": ("PlanSource",),
    "sources.source": ("RunFacts", "Source", "Write"),
    "trackers.tracker": ("Candidates", "Tracker", "TrackerSettings"),
    "workspace.directory": ("workspace_key",),
}

# Those that have another name at home.
_CALLED = {
    "parse_mailbox": ("peers.mailbox.parse", "parse"),
    "parse_worklog": ("peers.worklog.parse", "parse"),
    "verify_webhook": ("trackers.webhooks", "is_authentic"),
}

__all__ = [
    "Agent",
    "AgentChoice",
    "AgentError",
    "AgentSession",
    "AgentSettings",
    "AgentSpec",
    "Author",
    "Blocker",
    "Candidates",
    "Charter",
    "CharterFile",
    "Claim",
    "Comment",
    "ConfigurationError",
    "Cursor",
    "Draft",
    "Event",
    "Finding",
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
    "MailboxFile",
    "Message",
    "Next",
    "Orchestrator",
    "Outcome",
    "PeerSettings",
    "PeerSource",
    "Place",
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
    "TurnReport",
    "Usage",
    "WorklogFile",
    "WorkspaceError",
    "WorkspaceSpec",
    "Write",
    "decide",
    "delete_status",
    "events_of",
    "find_place",
    "load_plan",
    "load_settings",
    "parse_charter",
    "parse_mailbox",
    "parse_status",
    "parse_worklog",
    "place_at",
    "read_status",
    "serve",
    "take_turn",
    "verify_webhook",
    "workspace_key",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    home, called = _CALLED.get(name, ("", name))
    home = home or next((home for home, names in _HOMES.items() if name in names), "")
    if home:
        return getattr(import_module(f".{home}", __name__), called)
    raise AttributeError(f"module 'sortie' has no attribute {name!r}")
