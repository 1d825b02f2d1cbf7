"""For whoever adds a part of their own: the contract of its kind as tests to inherit, and fakes that keep it.

The contracts need pytest, which nothing else in this package imports; each name loads what it needs on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..agents.mock import MockAgent, MockOptions, MockTurn
    from .agent_contract import AgentContract
    from .fake_host import FakeHost
    from .fakes import EventCollector, ManualClock, MemoryTracker, Recorder
    from .host_contract import HostContract
    from .remote_host import RemoteHost
    from .tracker_contract import TrackerContract

_HOMES = {
    "sortie.agents.mock": ("MockAgent", "MockOptions", "MockTurn"),
    "sortie.testing.agent_contract": ("AgentContract",),
    "sortie.testing.fake_host": ("FakeHost",),
    "sortie.testing.fakes": ("EventCollector", "ManualClock", "MemoryTracker", "Recorder"),
    "sortie.testing.host_contract": ("HostContract",),
    "sortie.testing.remote_host": ("RemoteHost",),
    "sortie.testing.tracker_contract": ("TrackerContract",),
}

__all__ = [
    "AgentContract",
    "EventCollector",
    "FakeHost",
    "HostContract",
    "ManualClock",
    "MemoryTracker",
    "MockAgent",
    "MockOptions",
    "MockTurn",
    "Recorder",
    "RemoteHost",
    "TrackerContract",
]


def __getattr__(name: str) -> object:
    import sys
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            if name.endswith("Contract") and home not in sys.modules:
                import pytest

                pytest.register_assert_rewrite(home)  # so that a failure shows what was compared
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'sortie.testing' has no attribute {name!r}")
