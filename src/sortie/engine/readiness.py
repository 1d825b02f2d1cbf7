"""Whether the agent of the workflow can start at all: looked at before runs start, and again while it cannot.

A fault of the agent is one that every run would meet: no program, no login, settings that it does not take. While
one is known nothing starts, nothing is charged and no issue is moved, but for one run at a time that tries again.
That run working ends it, and so does a look that finds the missing program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..agents.agent import Agent
from ..core import events as ev
from ..core.conclude import LONGEST_LIMIT
from ..core.operator import try_agent_again
from ..core.schedule import Pause, Schedule
from ..runs.environment import passed_on
from ..workflow.config import Config
from .services import Services

LOOK_EVERY = 5.0

# A fault that no run has met yet was seen by a look, and a look ends it.
SEEN = 0
# After this many runs, of different issues where there are some, nobody needs to wait for another one to know.
CERTAIN = 3


class Readiness:
    def __init__(self, services: Services, environ: Mapping[str, str]) -> None:
        self._services = services
        self._environ = environ
        self._looked_at: Agent | None = None
        self._next_look = 0.0

    def look(self) -> bool:
        """Whether it changed anything. Costs a comparison while the agent works; while it does not, some file
        look-ups every few seconds, however often it is asked for."""
        services, now = self._services, self._services.clock.now()
        kind = services.workflow.config.agent.kind
        fault = services.ledger.schedule.fault_of(kind)
        changed = services.agent is not self._looked_at
        asked = fault is not None and fault.tries == SEEN and fault.until <= now
        if not changed and (fault is None or now < self._next_look) and not asked:
            return False
        self._looked_at = services.agent
        self._next_look = now + LOOK_EVERY
        news = self._news(fault, now, changed=changed)
        services.ledger.post(*news)
        return bool(news)

    def _news(self, fault: Pause | None, now: float, *, changed: bool) -> Sequence[ev.AnyEvent]:
        services = self._services
        config = services.workflow.config
        missing = missing_agent(services.agent, config, self._environ, now)
        if missing:
            known = fault is not None and fault.detail == missing[0].detail and fault.until > now
            return () if known else missing
        if fault and fault.tries == SEEN:
            return [ev.ProviderResumed(at=now, provider=config.agent.kind, why="its program is there")]
        # The service, or the workflow, is new: one run shows whether that helped.
        return try_agent_again(services.ledger.schedule, now) if fault and changed else ()


def missing_agent(
    agent: Agent, config: Config, environ: Mapping[str, str], now: float
) -> tuple[ev.ProviderPaused, ...]:
    """What a look at the agent says against starting it; nothing where it may start."""
    missing = agent.missing(passed_on(environ, (*agent.variables, *config.agent.env)))
    if missing is None:
        return ()
    until, kind = now + LONGEST_LIMIT, config.agent.kind
    paused = ev.ProviderPaused(
        at=now, provider=kind, until=until, detail=str(missing), error_kind=missing.kind, tries=SEEN
    )
    return (paused,)


def is_certain(schedule: Schedule) -> bool:
    """Whether nothing will start until somebody mends the agent."""
    fault = schedule.fault_of(schedule.policy.provider)
    return fault is not None and (fault.tries == SEEN or fault.tries >= CERTAIN)
