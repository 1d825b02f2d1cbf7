"""`sortie history`: the runs that ended, newest first."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.redact import Redactor
from ..store.reading import HistoryRow, history
from .exits import DONE
from .place import json_option, load_config, looking_at, require_issue, workflow_option
from .printing import print_json, print_table
from .words import amount, duration, seconds_of

COLUMNS = ("ended", "issue", "attempt", "status", "turns", "tokens", "cost", "time", "reason")


@click.command("history")
@click.argument("issue", required=False)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this many runs.")
@workflow_option
@json_option
def history_command(issue: str | None, limit: int, workflow: Path, as_json: bool) -> int:
    """Show what ran, newest first: all issues, or one.

    Works while the service runs, and after it died.
    """
    config = load_config(workflow)
    with looking_at(config) as db:
        rows = history(db, require_issue(db, issue) if issue else None, limit)
    if as_json:
        print_json(rows)
    elif rows:
        hide = Redactor(config.secrets).text
        print_table(COLUMNS, [_cells(row, hide(reason_of(row))) for row in rows], right=COLUMNS[4:8])
    else:
        click.echo("Nothing has ended yet; `sortie status` shows what is going on.")
    return DONE


def reason_of(row: HistoryRow) -> str:
    signal = f"{row.soft_stop}: {row.reason}" if row.reason else row.soft_stop
    return row.error or signal


def _cells(row: HistoryRow, reason: str) -> tuple[str, ...]:
    took = seconds_of(row.completed_at) - seconds_of(row.started_at)
    return (
        row.completed_at,
        row.identifier,
        str(row.attempt),
        row.status,
        str(row.turns),
        amount(row.tokens.total),
        f"${row.cost_usd:.2f}" if row.cost_usd else "-",
        duration(took),
        reason,
    )
