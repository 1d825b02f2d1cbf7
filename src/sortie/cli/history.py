"""`sortie history`: the runs that ended, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from ..core.model import RunStatus
from ..core.redact import Redactor
from ..reports.runs import SORTS, Choice, Sort, chosen_runs
from ..store.queries import HistoryRow
from .format import amount, duration, seconds_of
from .main import DONE
from .printing import Columns, json_option, print_json, print_sentence, print_table
from .store_access import issue_or_workflow_argument, load_config, looking_at, require_issue, workflow_option

COLUMNS = ("ended", "issue", "run", "attempt", "outcome", "turns", "tokens", "cost", "time", "reason")
NUMBERS = ("turns", "tokens", "cost", "time")
MOST_RUNS = 1_000_000
SPARE = ("cost", "tokens", "attempt", "turns", "time", "ended", "run")


@click.command("history")
@issue_or_workflow_argument
@click.option(
    "--limit", type=click.IntRange(1, MOST_RUNS), default=20, show_default=True, help="At most this many runs."
)
@click.option("--status", type=click.Choice(get_args(RunStatus)), help="Only runs with this outcome.")
@click.option("--agent", metavar="KIND", help="Only runs of this kind of agent.")
@click.option(
    "--sort", type=click.Choice(SORTS), default="ended", show_default=True, help="Highest or newest first."
)
@workflow_option
@json_option
def history_command(
    issue: str | None, limit: int, status: str | None, agent: str | None, sort: Sort, workflow: Path, as_json: bool
) -> int:
    """Show what ran, newest first: all issues, or one.

    `sortie logs ISSUE --run RUN` prints what the agent of one of these runs said.

    Works while the service runs, and after it died.
    """
    config = load_config(workflow)
    with looking_at(config) as db:
        issue_id = require_issue(db, issue) if issue else None
        rows = chosen_runs(db, Choice(issue=issue_id, status=status, agent=agent, sort=sort), limit=limit)
    if as_json:
        print_json(rows)
    elif rows:
        hide = Redactor(config.secrets).text
        cells = [_cells(row, hide(row.error or row.reason)) for row in rows]
        print_table(Columns(COLUMNS, cells, right=NUMBERS, cut=("reason",), spare=SPARE))
    elif status or agent:
        print_sentence("No run matches.")
    else:
        print_sentence("Nothing has ended yet; `sortie status` shows what is going on.")
    return DONE


def _cells(row: HistoryRow, reason: str) -> tuple[str, ...]:
    took = seconds_of(row.completed_at) - seconds_of(row.started_at)
    return (
        row.completed_at,
        row.identifier,
        row.run_id.rpartition("-")[2],  # what comes before is the time of its start
        str(row.attempt),
        row.soft_stop or row.status,
        str(row.turns),
        amount(row.tokens.total) if row.measured else "?",
        f"${row.cost_usd:.2f}" if row.cost_usd else "-",
        duration(took),
        reason,
    )
