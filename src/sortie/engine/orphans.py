"""What agents at work leave to us: zombies go, and people hear of processes that nobody can tell the owner of."""

from __future__ import annotations

import anyio

from ..core import events as ev
from ..process.orphans import Orphan, household
from .services import Services

LOOK_EVERY = 5.0

# An agent that leaves behind thousands of processes must not fill the store.
_NAMED = 5


async def tend_orphans(services: Services) -> None:
    in_doubt: set[tuple[int, int]] = set()
    while True:
        await anyio.sleep(LOOK_EVERY)
        looked = await household.look()
        _note(services, "ended what runs that are over had left behind", looked.ended)
        news = [one for one in looked.in_doubt if (one.pid, one.start_ticks) not in in_doubt]
        _note(services, "nobody knows whose this is; it is ended with the last run that can own it", news)
        in_doubt = {(one.pid, one.start_ticks) for one in looked.in_doubt}


def _note(services: Services, message: str, orphans: list[Orphan]) -> None:
    if not orphans:
        return
    named = [f"process {one.pid}: {services.redactor.text(one.command)}" for one in orphans[:_NAMED]]
    if len(orphans) > _NAMED:
        named.append(f"and {len(orphans) - _NAMED} more")
    services.ledger.post(
        ev.Noted(at=services.clock.now(), level="warning", message=message, detail="; ".join(named))
    )
