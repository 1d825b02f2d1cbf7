"""Every turn that began in a checkout and how it ended, one after the other: two turns never overlap.

Each line of `turns.jsonl` is a whole turn as it was then; the latest line of a number counts. Lines are only ever
added.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from ..errors import SortieError
from ..process.identity import RUN_MARK, ProcessIdentity, identify, is_of_run, limit_marker_of, mark_of
from ..process.process_table import look_up, snapshot
from ..protocol.changing_places import sync_directory
from .place import Place, make_state_directory
from .state_file import add_line, locked, open_careful, problem_of

NAME = "turns.jsonl"
INTERRUPTED = "interrupted"
PATIENCE = 30.0
_LARGEST = 256 << 20


class Turn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of one agent. `outcome` is empty while it is open; `owner` is the process that began it."""

    number: int
    agent: str
    kind: str
    task: str = ""
    run_id: str = ""
    began: float
    ended: float | None = None
    outcome: str = ""
    before: str = ""
    after: str = ""
    cursor: str = ""
    owner: ProcessIdentity | None = None

    @property
    def is_open(self) -> bool:
        return self.ended is None


_DECODER = msgspec.json.Decoder(Turn)


class TurnRegister:
    def __init__(self, place: Place, *, patience: float = PATIENCE) -> None:
        self._place = place
        self._patience = patience

    def turns(self) -> list[Turn]:
        """All turns in the order of their numbers, as they are now."""
        found: dict[int, Turn] = {}
        for line in self._lines():
            if (turn := _decoded(line)) is not None:
                found[turn.number] = turn
        return [found[number] for number in sorted(found)]

    def remarks(self) -> list[str]:
        """What in the register is no turn, by line; it is skipped everywhere."""
        return [
            f"Line {number} of {self._place.state / NAME} is no turn and is skipped."
            for number, line in enumerate(self._lines(), 1)
            if _decoded(line) is None
        ]

    def open_turn(self) -> Turn | None:
        return next((turn for turn in reversed(self.turns()) if turn.is_open), None)

    def turns_of(self, agent: str, since: float) -> int:
        """How many turns this agent has ended that began then or later."""
        name = agent.casefold()
        return sum(
            turn.agent.casefold() == name and not turn.is_open and turn.began >= since for turn in self.turns()
        )

    def begin(
        self,
        *,
        agent: str,
        kind: str,
        began: float,
        task: str = "",
        run_id: str = "",
        before: str = "",
        cursor: str = "",
        least: int = 1,
    ) -> Turn:
        """The next turn, its number at least `least`. An open one whose run is dead is ended as interrupted; a run
        that lives refuses it."""
        with self._locked() as descriptor:
            turns = self.turns()
            for turn in turns:
                if turn.is_open and is_alive(turn):
                    raise SortieError(
                        f"Turn {turn.number}, of {turn.agent}, goes on in {self._place.root}; two never overlap.",
                        fix="Wait until it has ended, or stop it.",
                    )
                if turn.is_open:
                    ended = msgspec.structs.replace(turn, ended=began, outcome=INTERRUPTED)
                    self._add(descriptor, ended)
            number = max(turns[-1].number + 1 if turns else 1, least)
            turn = Turn(
                number=number,
                agent=agent,
                kind=kind,
                task=task,
                run_id=run_id,
                began=began,
                before=before,
                cursor=cursor,
                owner=identify(os.getpid()),
            )
            self._add(descriptor, turn)
            return turn

    def amend(self, number: int, **changes: Any) -> Turn:
        """Put down what became known of a turn."""
        with self._locked() as descriptor:
            turn = next((turn for turn in self.turns() if turn.number == number), None)
            if turn is None:
                raise SortieError(
                    f"There is no turn {number} in {self._place.root}.", fix="See `sortie turn --list`."
                )
            changed = msgspec.structs.replace(turn, **changes)
            self._add(descriptor, changed)
            return changed

    def put(self, turn: Turn) -> Turn:
        """Write a turn down as its owner knows it: the register may have been lost meanwhile."""
        with self._locked() as descriptor:
            self._add(descriptor, turn)
            return turn

    def end(self, number: int, outcome: str, ended: float, **changes: Any) -> Turn:
        return self.amend(number, outcome=outcome, ended=ended, **changes)

    def _lines(self) -> Iterator[bytes]:
        path = self._place.state / NAME
        try:
            descriptor, status = open_careful(path, os.O_RDONLY)
        except FileNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            if status.st_size > _LARGEST:
                raise SortieError(f"{path} has more than {_LARGEST >> 20} MiB that are not ours.", fix="Remove it.")
            yield from file

    def _add(self, descriptor: int, turn: Turn) -> None:
        add_line(self._place.state / NAME, descriptor, msgspec.json.encode(turn) + b"\n")

    @contextmanager
    def _locked(self) -> Iterator[int]:
        state = make_state_directory(self._place.root)
        path = state / NAME
        with locked(state / f"{NAME}.lock", self._patience):
            descriptor, status = open_careful(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                if status.st_size == 0:
                    sync_directory(state)
                elif os.pread(descriptor, 1, status.st_size - 1) != b"\n":
                    os.write(descriptor, b"\n")  # of a writer that died; its line is skipped
                yield descriptor
            except OSError as error:
                raise problem_of(path, error) from error
            finally:
                os.close(descriptor)


def is_led(turn: Turn) -> bool:
    """Whether the process that began it still goes on. What a dead one left, the next turn ends."""
    owner = turn.owner
    if owner is None or identify(owner.pid) != owner:
        return False
    process = look_up(owner.pid)
    return process is not None and not process.ended


def is_alive(turn: Turn) -> bool:
    """Whether the process that began it, or anything of its run, still goes on."""
    if is_led(turn):
        return True
    if not turn.run_id:
        return False
    return any(
        mark_of(process.pid, RUN_MARK) == turn.run_id or is_of_run(limit_marker_of(process.pid), turn.run_id)
        for process in snapshot().values()
        if not process.ended
    )


def _decoded(line: bytes) -> Turn | None:
    try:
        return _DECODER.decode(line) if line.endswith(b"\n") else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
