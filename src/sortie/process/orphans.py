"""Whose the orphans are that we have adopted, and the end of those that no running program can own.

As a subreaper we become the parent of what programs leave behind. An orphan is known by the mark in its
environment, by the marker in its limits or by its directory. One that has shaken off all of them can only come from
a program that was there before it was born: while such a program runs the orphan is in doubt, with the last of them
it goes.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from .identity import ProcessIdentity, Traits, traits_of
from .process_table import (
    Process,
    ProcessTree,
    Table,
    adopted,
    descendants,
    inherited_children,
    look_up,
    reap,
    snapshot,
)
from .sweep import end_all

log = logging.getLogger(__name__)

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_GRACE = 2.0
_COMMAND_BYTES = 400

# A call that is over at once: to let other threads run meanwhile would cost more than it does.
_libc = ctypes.PyDLL(None)


class StartedProgram(Struct):
    """A program that we started, and what its descendants are known by. `ending` once we have begun to end it."""

    identity: ProcessIdentity
    run_id: str
    limit_marker: int
    directory: Path
    ending: bool = False

    def recognises(self, traits: Traits) -> bool:
        """By the mark, else by the marker in the limits, else by the directory."""
        if traits.run_id:
            return traits.run_id == self.run_id
        if traits.limit_marker:
            return traits.limit_marker == self.limit_marker
        return traits.directory is not None and traits.directory.is_relative_to(self.directory)


class Orphan(Struct, frozen=True):
    """An adopted process, and what it calls itself."""

    pid: int
    start_ticks: int
    command: str


class OrphanCheck(Struct, frozen=True):
    """What a check of the orphans found: some were `ended`, some are `in_doubt` between the programs that run."""

    ended: list[Orphan]
    in_doubt: list[Orphan]


class OrphanTracker:
    """The programs that we have started and not reaped yet, and what they leave to us."""

    def __init__(self) -> None:
        self._programs: dict[int, StartedProgram] = {}
        self._spared: set[int] = set()
        self._first_start: int | None = None
        self.is_sole_parent = False

    @contextmanager
    def sole_parent(self) -> Iterator[None]:
        """While this holds, no child of ours in another session outlives the last program that can own it.

        Only for a process that starts nothing else in a session of its own: a program that embeds an orchestrator
        has children that we know nothing of. The init of a container gets the orphans of strangers: there only what
        is recognised is ended, and the kernel ends everybody together with us.
        """
        self.is_sole_parent = True
        try:
            yield
        finally:
            self.is_sole_parent = False

    def add(self, program: StartedProgram) -> None:
        self._programs[program.identity.pid] = program
        if self._first_start is None:
            self._first_start = program.identity.start_ticks

    def forget(self, program: StartedProgram) -> None:
        """It has been reaped; its number may pass to somebody else."""
        del self._programs[program.identity.pid]

    def spare(self, pid: int) -> None:
        """A child in our own session that belongs to us, not to a run."""
        self._spared.add(pid)

    def unspare(self, pid: int) -> None:
        """It has been reaped."""
        self._spared.discard(pid)

    def has_none(self) -> bool:
        """Whether we are certainly the parent of programs alone: what one that has ended left would be ours."""
        return self._inherited() == []

    def look_at(self, program: StartedProgram) -> tuple[Table, list[Process]]:
        """Everybody who may come from this program, whoever is below it and below the orphans that came to us; and
        those of them who end with it: itself, its own orphans, and what no other can own. Dead orphans are reaped.
        """
        pid = program.identity.pid
        inherited = self._inherited()
        table = snapshot() if inherited is None else descendants([pid, *inherited])
        orphans = self._living(table)
        theirs = [p for p in orphans if program.recognises(traits_of(p.pid)) or self._is_ownerless(p)]
        return table, [table[pid], *theirs]

    async def check(self) -> OrphanCheck:
        """Reap dead orphans, end those that no running program can own, and say whose owner cannot be told."""
        inherited = self._inherited()
        found = snapshot() if inherited is None else {p.pid: p for p in map(look_up, inherited) if p is not None}
        living = [p for p in self._living(found) if self._came_to_us(p)]
        ownerless = [_described(p) for p in living if self._is_ownerless(p)]
        if ownerless:
            await self._end(self._is_ownerless, self._programs, _GRACE)
        in_doubt = [p for p in living if not self._is_ownerless(p) and not self._is_recognised(p)]
        return OrphanCheck(ended=ownerless, in_doubt=[_described(p) for p in in_doubt])

    async def end_all(self, grace: float = _GRACE) -> None:
        """End everybody who came to us since the first program started, and the programs: the end of a service."""
        await self._end(self._came_to_us, (), grace)

    async def _end(self, chosen: Callable[[Process], bool], spared: Collection[int], grace: float) -> None:
        tree = ProcessTree()

        def living() -> list[Process]:
            table = snapshot()
            reap(adopted(table, self._programs))
            return tree.living(table, [p for p in adopted(table, spared) if not p.ended and chosen(p)])

        if survivors := await end_all(living, grace):
            log.warning("processes that cannot be ended: %s", ", ".join(str(p.pid) for p in survivors))

    def _inherited(self) -> list[int] | None:
        """Our children that are no programs; None where orphans do not come to us or no kernel lists them."""
        children = inherited_children() if is_subreaper() else None
        known = self._programs.keys() | self._spared
        return None if children is None else [pid for pid in children if pid not in known]

    def _living(self, table: Table) -> list[Process]:
        orphans = adopted(table, self._programs)
        reap(orphans)
        return [p for p in orphans if not p.ended]

    def _came_to_us(self, process: Process) -> bool:
        if not self.is_sole_parent or os.getpid() == 1 or self._first_start is None:
            return False
        return process.start_ticks >= self._first_start

    def _is_ownerless(self, orphan: Process) -> bool:
        """Whether every program that was there before it was born has ended, or is being ended."""
        return self._came_to_us(orphan) and not any(
            program.identity.start_ticks <= orphan.start_ticks
            for program in self._programs.values()
            if not program.ending
        )

    def _is_recognised(self, orphan: Process) -> bool:
        traits = traits_of(orphan.pid)
        return any(program.recognises(traits) for program in self._programs.values())


# A process has one set of children, whoever in it starts them.
orphan_tracker = OrphanTracker()


def become_subreaper() -> None:
    """Have the kernel make us the parent of what our descendants leave behind."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def is_subreaper() -> bool:
    answer = ctypes.c_int()
    return _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0) == 0 and bool(answer.value)


def _described(process: Process) -> Orphan:
    raw = b""
    with suppress(OSError), Path(f"/proc/{process.pid}/cmdline").open("rb") as file:  # it may be gone
        raw = file.read(_COMMAND_BYTES)
    command = raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    return Orphan(process.pid, process.start_ticks, command)
