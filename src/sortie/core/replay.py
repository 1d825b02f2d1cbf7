"""Plays a log again: every decision must follow from the events before it, or the log or the code is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from .actions import Action
from .budget import day_of
from .decide import Tick, decide
from .events import AnyEvent, PolicySet, Ticked
from .schedule import Schedule


class Divergence(Struct, frozen=True, kw_only=True):
    """A decision that comes out differently today; `index` is its place in the log, counted from zero."""

    index: int
    at: float
    expected: tuple[Action, ...]
    got: tuple[Action, ...]


def replay(events: Iterable[AnyEvent]) -> Iterator[Divergence]:
    """Every tick whose actions are not what `decide` answers now. What the log says goes on counting as true."""
    schedule: Schedule | None = None
    for index, event in enumerate(events):
        if schedule is None and isinstance(event, PolicySet):
            schedule = Schedule(event.policy)
        if isinstance(event, Ticked):
            if schedule is None:
                raise ValueError("The log has a decision before any rules; replay it from its beginning.")
            got = tuple(decide(schedule, _tick(event)))
            if got != event.actions:
                yield Divergence(index=index, at=event.at, expected=event.actions, got=got)
        if schedule is not None:
            schedule.apply(event)


def _tick(event: Ticked) -> Tick:
    return Tick(
        now=event.at if event.now is None else event.now,
        candidates_known=event.candidates_known,
        overdue=event.overdue,
        unsure=event.unsure,
        day=day_of(event.at),
    )
