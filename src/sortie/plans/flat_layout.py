"""Where files of several tasks go when they are merged into one tree: none over another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..protocol.error_report import FILE as ERROR_REPORT
from ..protocol.outbox import Delivered
from .collection import APART, MANIFEST, SUMMARY_PAGE
from .handover import ALWAYS

# What every task may have by the protocol: merged, they would be in each other's way.
_OF_EACH = (*ALWAYS, f"outbox/{ERROR_REPORT}")
_PARTIAL = "outbox/partial/"
_TAKEN = (MANIFEST, SUMMARY_PAGE, APART)

Conflict = tuple[str, tuple[str, ...]]


def by_task(task: str, file: Delivered) -> str:
    return f"{task}/{_below(file.path)}"


def apart(task: str, file: Delivered) -> str:
    return f"{APART}/{by_task(task, file)}"


class FlatLayout:
    """`conflicts` has every path that is not the same from all tasks that deliver it, or that is ours, with those
    tasks. Each of its versions stays apart, with its task."""

    def __init__(self, delivered: Sequence[tuple[str, Delivered]]) -> None:
        merged = [(task, file) for task, file in delivered if not _is_of_each(file.path)]
        hashes: dict[str, set[str]] = {}
        agents: dict[str, list[str]] = {}
        for task, file in merged:
            place = _below(file.path)
            hashes.setdefault(place, set()).add(file.sha256)
            agents.setdefault(place, []).append(task)
        refused = {place for place, found in hashes.items() if len(found) > 1 or place.split("/")[0] in _TAKEN}
        for place in hashes:
            in_the_way = [above for above in _above(place) if above in hashes]
            refused.update([place, *in_the_way] if in_the_way else [])
        self.conflicts: tuple[Conflict, ...] = tuple((place, tuple(agents[place])) for place in sorted(refused))
        self._apart = refused

    def place(self, task: str, file: Delivered) -> str:
        merged = _below(file.path)
        return apart(task, file) if _is_of_each(file.path) or merged in self._apart else merged


def _is_of_each(path: str) -> bool:
    return path in _OF_EACH or path.startswith(_PARTIAL)


def _below(path: str) -> str:
    return path.removeprefix("outbox/")


def _above(place: str) -> Iterable[str]:
    parts = place.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
