"""What the parts of the engine share: the ledger, the clock, the source in force and its limit, and the hosts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio

from ..core import events as ev
from ..core.conclude import Next
from ..core.observe import seen_now
from ..core.records import Claim
from ..core.redact import Redactor
from ..core.schedule import Schedule
from ..errors import ConfigurationError
from ..hosts.guarded import GuardedHost
from ..hosts.host import Host, HostInfo
from ..sources.source import Source
from .clock import Clock
from .ledger import Ledger
from .service_metrics import ServiceMetrics
from .tracker_limit import TrackerLimit


class HostPool:
    """The hosts by the names of their machines. The first one has every run whose host is not on record."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        assert hosts, "runs need a host"
        self._hosts = tuple(GuardedHost(host) for host in hosts)
        self._machines: dict[str, tuple[Host, HostInfo]] = {}
        self._present: set[str] = set()

    async def refresh(self) -> bool:
        """Ask all of them which machines there are now; whether that changed. Raises where two have one name."""
        found: dict[str, tuple[Host, HostInfo]] = {}
        for host in self._hosts:
            for info in await host.hosts():
                if info.name in found:
                    fix = "Give each a `name` of its own."
                    raise ConfigurationError(f"Two hosts call a machine {info.name}.", fix=fix)
                found[info.name] = (host, info)
        before = self.places(())
        self._machines |= found  # one that is gone may still have runs to be asked about
        self._present = set(found)
        return self.places(()) != before

    def lost(self, name: str) -> None:
        """It takes no runs until it is heard of again."""
        self._present.discard(name)

    def lost_all(self, host: Host) -> None:
        """The same of all machines of a host."""
        self._present -= {name for name, (owner, _) in self._machines.items() if owner is host}

    def of(self, name: str) -> Host:
        return self._machines[name][0] if name in self._machines else self._hosts[0]

    def all(self) -> Sequence[Host]:
        return self._hosts

    def places(self, running: Iterable[Claim]) -> tuple[ev.Place, ...]:
        """Who takes how many more runs."""
        busy = Counter(claim.host for claim in running)
        return tuple(
            ev.Place(host=name, free=None if info.capacity is None else max(info.capacity - busy[name], 0))
            for name, (_, info) in sorted(self._machines.items())
            if name in self._present
        )


@dataclass
class Context:
    """`source` is replaced when its settings change; a run keeps the one it began with, and `earlier` ones are open
    as long as somebody uses them. `fence` tells this start of the orchestrator from every other one. `leaving` is
    set when we are asked to stop."""

    ledger: Ledger
    clock: Clock
    source: Source
    hosts: HostPool
    redactor: Redactor
    fence: str
    wake: anyio.Event = field(default_factory=anyio.Event)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    earlier: list[Source] = field(default_factory=list)
    metrics: ServiceMetrics = field(default_factory=ServiceMetrics)
    limit: TrackerLimit = field(init=False)

    def __post_init__(self) -> None:
        self.limit = TrackerLimit(self.clock, self.leaving, partial(self.note, "warning"))

    @property
    def schedule(self) -> Schedule:
        return self.ledger.schedule

    @property
    def store_id(self) -> str:
        return self.ledger.store.store_id

    def moved(self, issue_id: str, left: Next) -> list[ev.AnyEvent]:
        """What the source shows of other items, now that this one is in another state."""
        others = self.source.moved(issue_id, left.state, left.memo)
        return seen_now(self.schedule, others, self.clock.now())

    def note(
        self, level: ev.Level, message: str, detail: str = "", *, issue_id: str = "", run_id: str = ""
    ) -> None:
        """Something that people are to read; secrets are taken out of it."""
        redact = self.redactor.text
        self.ledger.post(
            ev.Noted(
                at=self.clock.now(),
                issue_id=issue_id,
                run_id=run_id,
                level=level,
                message=redact(message),
                detail=redact(detail),
            )
        )
