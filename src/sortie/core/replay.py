"""Plays a log again: every decision must follow from the events before it, or the log or the code is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from .decide import Tick, decide
from .events import AnyEvent, Claimed, PolicySet, Skipped, Ticked
from .model import like
from .policy import day_of
from .schedule import Schedule

# What says nothing about a start: its name, and on which day it counts. A stop keeps the name of its run: that is
# whom it means.
_NAMES = {"run_id": "", "day": ""}

# Earlier versions said of each issue what was lacking when it was its turn; now those of a group share one answer.
_NO_ROOM = frozenset({"agent-held", "provider-paused", "day-budget", "no-slot", "no-state-slot"})


class Divergence(Struct, frozen=True, kw_only=True):
    """A decision that comes out differently today; `index` is its place in the log, counted from zero."""

    index: int
    at: float
    expected: tuple[AnyEvent, ...]
    got: tuple[AnyEvent, ...]


def replay(events: Iterable[AnyEvent]) -> Iterator[Divergence]:
    """Every tick that `decide` answers differently now. What the log says goes on counting as true."""
    log = list(events)
    schedule: Schedule | None = None
    for index, event in enumerate(log):
        if schedule is None and isinstance(event, PolicySet):
            schedule = Schedule(event.policy)
        if isinstance(event, Ticked):
            if schedule is None:
                raise ValueError("The log has a decision before any rules; replay it from its beginning.")
            now = event.at if event.now is None else event.now
            got = tuple(decide(schedule, like(Tick, event, now=now, day=day_of(event.at))))
            expected = tuple(log[index + 1 : index + 1 + event.answers])
            if _essence(event, got) != _essence(event, expected):
                yield Divergence(index=index, at=event.at, expected=expected, got=got)
        if schedule is not None:
            schedule.apply(event)


def _essence(tick: Ticked, answer: tuple[AnyEvent, ...]) -> list[AnyEvent]:
    return [
        replace(event, at=0.0, **(_NAMES if isinstance(event, Claimed) else {}))
        for event in answer
        if not (tick.actions and isinstance(event, Skipped) and event.rule in _NO_ROOM)
    ]
