"""`sortie usage`: tokens and dollars by day, by issue, by agent and model, and what is left of the day's budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from ..core.policy import day_of
from ..reports.usage import MOST_DAYS, Amount, UsageReport, usage_report
from .format import amount, count
from .main import DONE
from .printing import Columns, json_option, print_json, print_sentence, print_table
from .store_access import examine_config, looking_at, workflow_argument

NUMBERS = ("runs", "tokens", "cached", "cost", "unmeasured")
SPARE = ("cached", "runs")


@click.command("usage")
@workflow_argument
@click.option(
    "--days", type=click.IntRange(1, MOST_DAYS), default=14, show_default=True, help="Number of days to show."
)
@json_option
def usage_command(workflow: Path, days: int, as_json: bool) -> int:
    """Show what was used: by day, by issue, by agent and model.

    A run that reported no usage is counted as unmeasured, and is not included in the other numbers.
    """
    found = examine_config(workflow)
    per_day = found.config.budget.per_day if found.workflow else None
    with looking_at(found.config) as db:
        report = usage_report(db, today=day_of(time.time()), days=days, per_day=per_day)
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return DONE


def _print_report(report: UsageReport) -> None:
    print_sentence(_today(report))
    if report.total == Amount():
        print_sentence(f"Nothing was used from {report.first_day} to {report.last_day}.")
        return
    used_on = [day for day in report.days if day.used != Amount()]
    _table("day", [((day.day,), day.used) for day in used_on])
    others = [((count(report.other_count, "other"),), report.other_issues)] if report.other_count else []
    _table("issue", [*(((issue.identifier,), issue.used) for issue in report.issues), *others])
    _table("agent", [((model.agent, model.model or "-"), model.used) for model in report.models], "model")
    click.echo()
    print_sentence(f"{report.first_day} to {report.last_day}: {_words(report.total)}")


def _table(title: str, rows: Sequence[tuple[tuple[str, ...], Amount]], *more: str) -> None:
    click.echo()
    cells = [[*names, *_cells(used)] for names, used in rows]
    print_table(Columns((title, *more, *NUMBERS), cells, right=NUMBERS, cut=(title, *more), spare=SPARE))


def _cells(used: Amount) -> tuple[str, ...]:
    """The cost is `?` if nothing was measured, or there is no price."""
    return (
        str(used.runs),
        amount(used.total_tokens),
        amount(used.cache_read_tokens),
        f"${used.cost_usd:.2f}" if used.is_known and used.is_priced else "?",
        str(used.unmeasured or ""),
    )


def _words(used: Amount) -> str:
    missing = f", and {count(used.unmeasured, 'run')} without usage data" if used.unmeasured else ""
    return f"{count(used.runs, 'run')}, {used.total_tokens:,} tokens, ${used.cost_usd:.2f}{missing}"


def _today(report: UsageReport) -> str:
    spent, limits = report.today, report.per_day
    bound = "" if limits is None else " of no limit" if limits.usd is None else f" of ${limits.usd:.2f}"
    return f"today ({report.last_day}, UTC): ${spent.usd:.2f}{bound}, {spent.tokens:,} tokens"
