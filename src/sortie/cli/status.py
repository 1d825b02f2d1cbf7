"""`sortie status`: what runs, waits and is parked, what was spent; also after the service died."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict

from ..core.budget import Spent, day_of
from ..core.policy import Limits
from ..core.redact import Redactor
from ..store.load import Loaded, load
from ..store.lock import holder_of
from ..store.reading import Totals, tool_calls, totals
from ..workflow.config import Config
from .exits import DONE
from .place import json_option, load_config, looking_at, workflow_option
from .printing import print_json, print_table
from .words import clean, duration, short, stamp

TITLE_WIDTH = 40


@click.command("status")
@workflow_option
@json_option
def status_command(workflow: Path, as_json: bool) -> int:
    """Show what runs, what waits and until when, what is parked and why, and what was spent.

    Works while the service runs, and after it died.
    """
    config = load_config(workflow)
    now = time.time()
    service = holder_of(config.db_path)
    with looking_at(config) as db:
        loaded, spent, calls = load(db, day_of(now)), totals(db), tool_calls(db)
    report = {**_report(config, service, loaded, spent, now), "tool_calls": calls}
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return DONE


def _report(
    config: Config, service: dict[str, Any] | None, loaded: Loaded, all_runs: Totals, now: float
) -> dict[str, Any]:
    hide = Redactor(config.secrets).text

    def named(issue_id: str, identifier: str) -> dict[str, Any]:
        view = loaded.issues.get(issue_id)
        return {"issue_id": issue_id, "identifier": identifier, "title": hide(view.title) if view else ""}

    return {
        "service": service,
        "running": [
            {
                **named(claim.issue_id, claim.identifier),
                "run_id": claim.run_id,
                "attempt": claim.attempt,
                "turn": claim.turn,
                "agent": claim.agent,
                "session_id": claim.session_id,
                "workspace": claim.workspace,
                "pid": claim.pid,
                "started_at": stamp(claim.claimed_at),
                "stopping": claim.stop_cause,
            }
            for claim in loaded.claims
        ],
        "retrying": [
            {
                **named(retry.issue_id, retry.identifier),
                "kind": retry.kind,
                "attempt": retry.attempt,
                "due_at": stamp(retry.due_at),
                "error": hide(retry.error),
            }
            for retry in loaded.retries
        ],
        "parked": [
            {
                **named(parked.issue_id, parked.identifier),
                "kind": parked.kind,
                "attempt": parked.attempt,
                "since": stamp(parked.since),
                "reason": hide(parked.reason),
            }
            for parked in loaded.parked
        ],
        "paused": [
            {
                "agent": pause.provider,
                "kind": pause.error_kind,
                "until": stamp(pause.until),
                "reason": hide(pause.detail),
            }
            for pause in loaded.pauses
            if pause.error_kind != "rate_limited" or pause.until > now
        ],
        "budget": {
            "day": loaded.day,
            "today": asdict(loaded.day_spent),
            "per_day": asdict(config.budget.per_day),
            "per_issue": asdict(config.budget.per_issue),
        },
        "totals": all_runs,
    }


def _print_report(report: dict[str, Any]) -> None:
    click.echo(_service_line(report))
    for paused in report["paused"]:
        click.echo(clean(_paused(paused)))
    _section("running", ("issue", "title", "attempt", "turn", "since"), report["running"], "started_at")
    _section("waiting", ("issue", "title", "attempt", "why", "until", "error"), report["retrying"], "due_at")
    _section("parked", ("issue", "title", "kind", "since", "reason"), report["parked"], "since")
    click.echo(_today(report["budget"]))
    click.echo(_all_time(report["totals"]))
    if report["tool_calls"]:
        click.echo(clean(f"tool calls: {_calls(report['tool_calls'])}"))
    if report["parked"]:
        click.echo(
            "A parked issue starts again after a person changed it in the tracker, or by `sortie unpark ISSUE`."
        )


def _service_line(report: dict[str, Any]) -> str:
    service = report["service"]
    if service:
        return clean(f"The service runs: pid {service.get('pid', '?')}, since {service.get('since', '?')}.")
    if report["running"]:
        return "The service is not running: it died during the runs below. `sortie run` resumes them."
    return "The service is not running; `sortie run` starts it."


def _paused(paused: dict[str, Any]) -> str:
    if paused["kind"] == "rate_limited":
        return f"{paused['agent']} is paused until {paused['until']}: {paused['reason']}"
    return (
        f"{paused['agent']} cannot run, so nothing starts: {paused['reason']} "
        "It goes on by itself when that is mended; `sortie retry --all` tries at once."
    )


def _section(title: str, headers: tuple[str, ...], items: list[dict[str, Any]], when: str) -> None:
    if not items:
        return
    click.echo(f"\n{title} ({len(items)})")
    keys = {"issue": "identifier", "why": "kind", "since": when, "until": when}
    rows = [
        [
            short(str(item[keys.get(header, header)]), TITLE_WIDTH if header == "title" else 1000)
            for header in headers
        ]
        for item in items
    ]
    print_table(headers, rows)


def _today(budget: dict[str, Any]) -> str:
    spent, limits = Spent(**budget["today"]), Limits(**budget["per_day"])
    parts = [
        f"{spent.sessions} of {_bound(limits.sessions)} sessions",
        f"{spent.turns} of {_bound(limits.turns)} turns",
        f"{spent.tokens:,} of {_bound(limits.tokens)} tokens",
        f"${spent.usd:.2f} of {'no limit' if limits.usd is None else f'${limits.usd:.2f}'}",
    ]
    return f"\ntoday ({budget['day']}, UTC): {', '.join(parts)}"


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
