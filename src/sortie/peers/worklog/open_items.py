"""What a work log leaves open: handoffs that nobody took up, proposals and objections that nobody decided about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from ..roster import fold
from .event import Event
from .heading import names_in

_WORK = ("task.claimed", "task.completed", "handoff.posted")
_OVER = ("accepted", "rejected", "superseded", "withdrawn", "closed")


class OpenItems(Struct, frozen=True, kw_only=True):
    handoffs: tuple[Event, ...] = ()
    proposals: tuple[Event, ...] = ()
    objections: tuple[Event, ...] = ()


def open_items(events: Iterable[Event]) -> OpenItems:
    """In the order of the log. A handoff is taken up by what its next owner does about the same task; where no task
    fits, that takes up the oldest. Proposals and objections end with a decision that names them."""
    handoffs, proposals, objections = _Waiting(), _Waiting(), _Waiting()
    begun: set[tuple[str, str]] = set()  # what is ended now was taken up when it was begun
    for event in events:
        if event.event_type in _WORK:
            owner, task = fold(event.actor), fold(event.subject)
            if handoffs.drop_first(f"{owner}\n{task}") is None and (owner, task) not in begun:
                handoffs.drop_first(owner)
            begun.add((owner, task))
        if event.event_type == "handoff.posted":
            handoffs.add(event, _owners_and_tasks(event))
        elif event.event_type == "proposal.created":
            proposals.add(event, _names(event, links=()))
        elif event.event_type == "objection.raised" and not event.payload.get("agreed_action"):
            objections.add(event, _names(event, links=event.links))
        elif event.event_type == "decision.recorded":
            names = _names(event, links=event.links)
            over = [one for name in names for one in proposals.drop_all(name)]
            for name in names.union(*(_names(one, links=()) for one in over)):
                objections.drop_all(name)
        if fold(str(event.payload.get("status", ""))).startswith(_OVER):
            proposals.drop_all(fold(str(event.payload.get("id", ""))))
    return OpenItems(handoffs=handoffs.left(), proposals=proposals.left(), objections=objections.left())


class _Waiting:
    """Events in the order in which they came, found by any of their names."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self._named: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def add(self, event: Event, names: Iterable[str]) -> None:
        self._events[event.event_id] = event
        for name in names:
            self._named[name][event.event_id] = None

    def drop_first(self, name: str) -> Event | None:
        named = self._named.get(name, {})
        while named:
            event_id = next(iter(named))
            del named[event_id]
            if event := self._events.pop(event_id, None):
                return event
        return None

    def drop_all(self, name: str) -> list[Event]:
        return list(iter(lambda: self.drop_first(name), None))

    def left(self) -> tuple[Event, ...]:
        return tuple(self._events.values())


def _owners_and_tasks(handoff: Event) -> Iterator[str]:
    for name in names_in(str(handoff.payload.get("next_owner", ""))):
        yield fold(name)
        for task in (handoff.subject, str(handoff.payload.get("next_task", ""))):
            if task:
                yield f"{fold(name)}\n{fold(task)}"


def _names(event: Event, *, links: Iterable[str]) -> set[str]:
    """What it is about and its ids; and for what answers others, those that it links to."""
    payload = (str(event.payload.get(key, "")) for key in ("id", "decision"))
    about = map(str, event.payload.get("about", ()))
    return {fold(name) for name in (event.entry_id, event.subject, *payload, *about, *links)} - {""}
