"""`sortie logs`: what the agent and the hooks of a run said, while it runs and afterwards.

Between them stands what agents of other issues did to this one in that time: the store knows, the log does not.
"""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click

from ..core.narrate import narrate
from ..errors import SortieError
from ..reports.transcript import RunLogReader
from ..runs.run_log import log_path
from ..store.lock import holder_of
from ..store.queries import events, has_ended, runs_of
from ..workflow.config import Config
from .format import clean, stamp
from .main import DONE
from .store_access import load_config, looking_at, require_issue, workflow_option

LOOK_EVERY = 0.1
RUNS_NAMED = 5


@click.command("logs")
@click.argument("issue")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--run", "run_id", help="This run instead of the last one, as `history` names it.")
@workflow_option
def logs_command(issue: str, follow: bool, run_id: str | None, workflow: Path) -> int:
    """Print what the agent of an issue said in its last run, hooks included."""
    config = load_config(workflow)
    with looking_at(config) as db:
        issue_id = require_issue(db, issue)
        runs = runs_of(db, issue_id)
        if not runs and (acts := [*Acts(db, issue_id, {}).new_lines()]):
            click.echo("\n".join(acts))
            return DONE
        run_id = _run_of(runs, issue, run_id)
        said = False
        with closing(RunLogReader(log_path(config.db_path, run_id))) as log:
            lines = Lines(log, Acts(db, issue_id, runs, run_id))
            for line in _followed(lines, db, config, run_id) if follow else lines.new_lines():
                said = True
                click.echo(line)
    if not said:
        click.echo(f"Run {run_id} said nothing.", err=True)
    return DONE


def _run_of(runs: dict[str, float], issue: str, run_id: str | None) -> str:
    if not runs:
        raise SortieError(f"{issue} has not run yet.", fix=f"`sortie why {issue}` says what it waits for.")
    meant = [run for run in runs if run_id in run] if run_id else [*runs][-1:]
    if len(meant) != 1:
        problem = f"has {len(meant)} runs with" if meant else "has no run"
        named = ", ".join((meant or [*runs])[-RUNS_NAMED:])
        raise SortieError(f"{issue} {problem} {run_id}.", fix=f"Its runs are: {named}.")
    return meant[0]


def _followed(log: Lines, db: sqlite3.Connection, config: Config, run_id: str) -> Iterator[str]:
    while True:
        # Asked before reading: what was said up to the end is there when the end is known.
        goes_on = _goes_on(db, config, run_id)
        yield from log.new_lines()
        if not goes_on:
            return
        time.sleep(LOOK_EVERY)


def _goes_on(db: sqlite3.Connection, config: Config, run_id: str) -> bool:
    return not has_ended(db, run_id) and holder_of(config.db_path) is not None


class Acts:
    """What agents of other issues did to this one: from one run to the next, before the first run, without any."""

    def __init__(
        self, db: sqlite3.Connection, issue_id: str, runs: dict[str, float], run_id: str | None = None
    ) -> None:
        self._db = db
        self._issue_id = issue_id
        self._seq = 0
        begun = [*runs.values()]
        number = [*runs].index(run_id) if run_id else 0
        self._since = begun[number] if number else 0.0
        self._until = begun[number + 1] if number + 1 < len(begun) else float("inf")

    def new_lines(self) -> Iterator[str]:
        for entry in events(self._db, issue_id=self._issue_id, kind="acted", after_seq=self._seq, limit=-1):
            self._seq = entry.seq
            if self._since <= entry.event.at < self._until:
                yield f"{stamp(entry.event.at)} tool: {clean(narrate(entry.event).text)}"


class Lines:
    """Both by their time, with which every line begins."""

    def __init__(self, log: RunLogReader, acts: Acts) -> None:
        self._log = log
        self._acts = acts

    def new_lines(self) -> Iterator[str]:
        return heapq.merge(self._log.new_lines(), self._acts.new_lines(), key=lambda line: line[:20])
