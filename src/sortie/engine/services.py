"""What the parts of the engine share: the ledger, the clock, and the workflow with the adapters built from it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import anyio

from ..agents.port import Agent
from ..core.redact import Redactor
from ..hosts.port import Host
from ..trackers.port import Tracker
from ..workflow.load import Workflow
from .clock import Clock
from .ledger import Ledger


@dataclass
class Services:
    """`workflow`, `tracker` and `agent` are replaced on reload; a run keeps those it began with."""

    ledger: Ledger
    clock: Clock
    host: Host
    workflow: Workflow
    tracker: Tracker
    agent: Agent
    redactor: Redactor
    wake: anyio.Event = field(default_factory=anyio.Event)

    def new_run_id(self) -> str:
        """Sorts by time, unique without coordination."""
        return f"{int(self.clock.now() * 1000):011x}-{secrets.token_hex(4)}"
