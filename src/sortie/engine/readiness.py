"""Whether the agent of the workflow can start at all: looked at before runs start, and again while it cannot.

A fault of the agent is one that every run would meet: no program, no login, settings that it does not take. While
one is known nothing starts, nothing is charged and no issue is moved, but for one run at a time that tries again.
That run working ends it, and so does a look that finds the missing program.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core import events as ev
from ..core.conclude import LONGEST_LIMIT
from ..core.operator import try_agent_again
from ..core.records import Pause
from ..core.schedule import Schedule
from ..sources.source import Source
from .context import Context

LOOK_EVERY = 5.0

# A fault that no run has met yet was seen by a look, and a look ends it.
SEEN = 0
# After this many runs, of different issues where there are some, nobody needs to wait for another one to know.
CERTAIN = 3


class Readiness:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked_at: Source | None = None
        self._next_look = 0.0

    def look(self) -> bool:
        """Whether it changed anything. Costs a comparison while the agent works; while it does not, some file
        look-ups every few seconds, however often it is asked for."""
        context, now = self._context, self._context.clock.now()
        fault = context.schedule.fault_of(context.source.policy.provider)
        changed = context.source is not self._looked_at
        asked = fault is not None and fault.tries == SEEN and fault.until <= now
        if not changed and (fault is None or now < self._next_look) and not asked:
            return False
        self._looked_at = context.source
        self._next_look = now + LOOK_EVERY
        events = self._found(fault, now, changed=changed)
        context.ledger.post(*events)
        return bool(events)

    def _found(self, fault: Pause | None, now: float, *, changed: bool) -> Sequence[ev.AnyEvent]:
        context = self._context
        missing = missing_agent(context.source, now)
        if missing:
            known = fault is not None and fault.detail == missing[0].detail and fault.until > now
            return () if known else missing
        if fault and fault.tries == SEEN:
            provider = context.source.policy.provider
            return [ev.ProviderResumed(at=now, provider=provider, why="its program is there")]
        # The service, or the workflow, is new: one run shows whether that helped.
        return try_agent_again(context.schedule, now) if fault and changed else ()


def missing_agent(source: Source, now: float) -> tuple[ev.ProviderPaused, ...]:
    """What a look at the agent says against starting it; nothing where it may start."""
    missing = source.missing_agent()
    if missing is None:
        return ()
    paused = ev.ProviderPaused(
        at=now,
        provider=source.policy.provider,
        until=now + LONGEST_LIMIT,
        detail=str(missing),
        error_kind=missing.kind,
        tries=SEEN,
    )
    return (paused,)


def is_certain(schedule: Schedule) -> bool:
    """Whether nothing will start until somebody repairs the agent."""
    fault = schedule.fault_of(schedule.policy.provider)
    return fault is not None and (fault.tries == SEEN or fault.tries >= CERTAIN)
