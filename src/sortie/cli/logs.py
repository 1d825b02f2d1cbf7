"""`sortie logs`: what the agent and the hooks of a run said, while it runs and afterwards."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import click

from ..core.events import Claimed
from ..engine.runlog import log_path
from ..errors import SortieError
from ..store.load import load
from ..store.lock import holder_of
from ..store.reading import last_events
from ..workflow.config import Config
from .exits import DONE
from .place import load_config, looking_at, require_issue, workflow_option
from .words import clean

LOOK_EVERY = 0.1
# Far more than the runs that a budget allows an issue leave in the log.
EVENTS_LOOKED_AT = 100_000


@click.command("logs")
@click.argument("issue")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--run", "run_id", help="This run instead of the last one, as `history` names it.")
@workflow_option
def logs_command(issue: str, follow: bool, run_id: str | None, workflow: Path) -> int:
    """Print what the agent of an issue said in its last run, hooks included."""
    config = load_config(workflow)
    with looking_at(config) as db:
        run_id = _run_of(db, issue, run_id)
        said = False
        with closing(RunLogReader(log_path(config.db_path, run_id))) as log:
            for line in _followed(log, db, config, run_id) if follow else log.new_lines():
                said = True
                click.echo(line)
    if not said:
        click.echo(f"Run {run_id} said nothing.", err=True)
    return DONE


def _run_of(db: sqlite3.Connection, issue: str, run_id: str | None) -> str:
    events = last_events(db, issue_id=require_issue(db, issue), limit=EVENTS_LOOKED_AT)
    runs = [entry.event.run_id for entry in events if isinstance(entry.event, Claimed)]
    if not runs:
        raise SortieError(f"{issue} has not run yet.", fix=f"`sortie why {issue}` says what it waits for.")
    meant = [run for run in runs if run_id in run] if run_id else runs[-1:]
    if len(meant) != 1:
        problem = f"has {len(meant)} runs with" if meant else "has no run"
        raise SortieError(f"{issue} {problem} {run_id}.", fix=f"Its runs are: {', '.join((meant or runs)[-5:])}.")
    return meant[0]


def _followed(log: RunLogReader, db: sqlite3.Connection, config: Config, run_id: str) -> Iterator[str]:
    while True:
        # Asked before reading: what was said up to the end is there when the end is known.
        goes_on = _goes_on(db, config, run_id)
        yield from log.new_lines()
        if not goes_on:
            return
        time.sleep(LOOK_EVERY)


def _goes_on(db: sqlite3.Connection, config: Config, run_id: str) -> bool:
    claims = load(db, "").claims
    open_here = any(claim.run_id == run_id and claim.ending is None for claim in claims)
    return open_here and holder_of(config.db_path) is not None


class RunLogReader:
    """Reads a log that is written to and rotated meanwhile; a line is given out once it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def new_lines(self) -> Iterator[str]:
        if self._file is None:
            yield from self._older_half()
        while True:
            if self._file is None and not self._open():
                return
            yield from self._drained()
            if not self._is_replaced():
                return
            yield from self._drained()  # what was written between the last read and the rotation
            self.close()

    def _older_half(self) -> Iterator[str]:
        try:
            self._file = self._path.with_suffix(".log.1").open("rb")
        except FileNotFoundError:
            return
        yield from self._drained()
        self.close()

    def _open(self) -> bool:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            return False
        return True

    def _drained(self) -> Iterator[str]:
        assert self._file
        while data := self._file.read(65536):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                yield clean(line.decode("utf-8", "replace"))

    def _is_replaced(self) -> bool:
        assert self._file
        try:
            return os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:
            return False  # being renamed, or removed for good

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None
