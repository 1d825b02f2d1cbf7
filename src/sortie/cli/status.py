"""`sortie status`: what runs, waits, is parked and is ready, what was spent; also after the service died."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import click

from ..core.narrate import RULES
from ..core.redact import Redactor
from ..process.process_table import is_suspended
from ..reports.status import DayBudget, PausedAgent, Status, status_report
from ..reports.words import is_plan, start_command
from ..store.call_use import CallFigures
from ..store.lock import holder_of
from ..store.queries import Totals, last_opened_for
from .format import duration, short, stamp
from .main import DONE
from .printing import Columns, json_option, print_json, print_sentence, print_table
from .store_access import complain, examine_config, looking_at, workflow_argument

TITLE_WIDTH = 40
IDLE_SHOWN = 10
# For so many seconds what was left of the tracker's server is told as the present.
FIGURES_CURRENT = 60.0
SENTENCES = ("title", "error", "reason", "because")
# What a narrow terminal does without, the first of them first.
SPARE = ("attempt", "turn", "since", "until", "title", "why", "kind")


@click.command("status")
@workflow_argument
@json_option
def status_command(workflow: Path, as_json: bool) -> int:
    """Show what runs, what waits and until when, what is parked and why, what is ready, what is held back
    and by what, and what was spent.

    Works while the service runs, and after it died.
    """
    found = examine_config(workflow)
    config = found.config
    is_store = config.db_path == workflow.absolute()
    service = holder_of(config.db_path)
    with looking_at(config) as db:
        status = status_report(
            db,
            config=None if is_store else config,
            broken=found.workflow is None and not is_store,
            service=service,
            now=time.time(),
            hide=Redactor(config.secrets).text,
        )
        owner = last_opened_for(db)
    for sentence in status.unreadable:
        complain(sentence)
    if as_json:
        print_json(status.plain())
    else:
        _print_report(status, owner)
        for sentence in _tracker_sentences(status.tracker, status.now, is_served=service is not None):
            print_sentence(sentence)
    return DONE


def _tracker_sentences(figures: CallFigures | None, now: float, *, is_served: bool) -> Iterator[str]:
    """Only what is current is told as if it were now."""
    if figures is None:
        return
    age = max(now - figures.as_of, 0.0)
    is_current = is_served and age <= FIGURES_CURRENT
    made = f"{figures.made} of {figures.per_minute}"
    told = f"tracker calls: {made} in the last minute" if is_current else f"tracker calls: {made} in a minute"
    if figures.limit is not None and figures.remaining is not None and (figures.resets_at or inf) > now:
        until = f" until {stamp(figures.resets_at)}" if figures.resets_at is not None else ""
        told += f"; the server allows {figures.remaining:,} of {figures.limit:,} more{until}"
    yield told if is_current else f"{told}, as it was {duration(age)} ago"
    if is_served and figures.held_until is not None and figures.held_until > now:
        yield f"The tracker is polled again at {stamp(figures.held_until)}, when its rate limit ends."


def _print_report(status: Status, owner: str) -> None:
    """`owner` is the workflow or plan that the store belongs to."""
    print_sentence(_service_line(status, start_command(owner)))
    for paused in status.paused:
        print_sentence(_paused(paused))
    _section("running", status.running, attempt="attempt", turn="turn", since="started_at")
    _section("waiting", status.retrying, attempt="attempt", why="kind", until="due_at", error="error")
    _section("parked", status.parked, kind="kind", since="since", reason="reason")
    _section("ready", status.ready, most=IDLE_SHOWN, because="rule")
    _section("held back", status.held_back, most=IDLE_SHOWN, because="rule")
    click.echo()
    if status.workflow_broken:
        known = "what is ready, and the limits, are unknown"
        rules = known if status.budget.per_day is None else "the service uses the last valid one"
        print_sentence(f"The workflow is broken: {rules}; `sortie validate` says how.")
    print_sentence(_today(status.budget))
    print_sentence(_all_time(status.totals))
    if status.tool_calls:
        print_sentence(f"tool calls: {_calls(status.tool_calls)}")
    if status.parked and is_plan(owner):
        print_sentence("`sortie plan retry TASK`, `fix`, `skip` or `accept` decides about what is parked.")
    elif status.parked:
        print_sentence(
            "A parked issue starts again after a person changed it in the tracker, or by `sortie unpark ISSUE`; "
            "`sortie answer ISSUE TEXT` also answers its agent."
        )


def _service_line(status: Status, start: str) -> str:
    service = status.service
    if service and is_suspended(pid := service.get("pid")):
        mended_by = f"`fg` in its terminal, or `kill -CONT {pid}`, lets it go on"
        return f"The service is suspended: pid {pid}, since {service.get('since', '?')}; {mended_by}."
    if service:
        return f"The service runs: pid {service.get('pid', '?')}, since {service.get('since', '?')}."
    if status.running:
        return f"The service is not running: it died during the runs below. `{start}` resumes them."
    return f"The service is not running; `{start}` starts it."


def _paused(paused: PausedAgent) -> str:
    if paused.kind == "rate_limited":
        return f"The {paused.agent} agent is paused until {paused.until}: {paused.reason}"
    return (
        f"The {paused.agent} agent cannot run, so nothing starts: {paused.reason} "
        "It goes on by itself when that is repaired; `sortie retry --all` tries at once."
    )


def _section(title: str, items: Sequence[Any], *, most: int | None = None, **columns: str) -> None:
    """A table of issues; `columns` says which field stands under which header."""
    if not items:
        return
    click.echo(f"\n{title} ({len(items)})")
    rows = [
        [item.identifier, short(item.title, TITLE_WIDTH), *(_cell(item, field) for field in columns.values())]
        for item in items[:most]
    ]
    print_table(Columns(("issue", "title", *columns), rows, cut=SENTENCES, spare=SPARE))
    if len(items) > len(rows):
        click.echo(f"… and {len(items) - len(rows)} more")


def _cell(item: Any, field: str) -> str:
    return _held_back(item.rule, item.detail) if field == "rule" else str(getattr(item, field))


def _held_back(rule: str, detail: str) -> str:
    if not rule:
        return "nothing holds it back"
    words = RULES.get(rule, rule)
    return f"{words}: {detail}" if detail else words


def _today(budget: DayBudget) -> str:
    spent, limits = budget.today, budget.per_day
    if limits is None:
        used = f"{spent.sessions} sessions, {spent.turns} turns, {spent.tokens:,} tokens, ${spent.usd:.2f}"
        return f"today ({budget.day}, UTC): {used}"
    parts = [
        f"{spent.sessions} of {_bound(limits.sessions)} sessions",
        f"{spent.turns} of {_bound(limits.turns)} turns",
        f"{spent.tokens:,} of {_bound(limits.tokens)} tokens",
        f"${spent.usd:.2f} of {'no limit' if limits.usd is None else f'${limits.usd:.2f}'}",
    ]
    return f"today ({budget.day}, UTC): {', '.join(parts)}"


def _calls(counted: dict[str, dict[str, int]]) -> str:
    def one(tool: str, results: dict[str, int]) -> str:
        failed = results.get("error", 0)
        return f"{tool} {sum(results.values())}" + (f" ({failed} failed)" if failed else "")

    return ", ".join(one(tool, results) for tool, results in counted.items())


def _bound(limit: int | None) -> str:
    return "unlimited" if limit is None else f"{limit:,}"


def _all_time(all_runs: Totals) -> str:
    if not all_runs.runs:
        return "no run has ended yet"
    counts = ", ".join(f"{count} {status}" for status, count in all_runs.runs.items())
    return (
        f"all ended runs: {counts}; {all_runs.turns} turns, {duration(all_runs.seconds)}, "
        f"{all_runs.tokens.total:,} tokens, ${all_runs.cost_usd:.2f}"
    )
