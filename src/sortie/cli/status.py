"""`sortie status`: what runs, waits, is parked and is ready, what was spent; also after the service died."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from ..core.narrate import RULES
from ..core.policy import Limits, Spent, day_of
from ..core.ready_queue import dispatch_order
from ..core.redact import Redactor
from ..store.load import Loaded, look
from ..store.lock import holder_of
from ..store.queries import Totals, tool_calls, totals
from ..workflow.config import Config
from .format import duration, short, stamp
from .main import DONE
from .printing import Columns, json_option, print_json, print_sentence, print_table
from .store_access import complain, examine_config, looking_at, workflow_argument

if TYPE_CHECKING:
    from ..workflow.loader import Examination

TITLE_WIDTH = 40
IDLE_SHOWN = 10
# With these rules an issue starts as soon as it is its turn; every other one needs something to happen first.
ONLY_ITS_TURN = ("", "no-slot", "no-state-slot")
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
    now = time.time()
    service = holder_of(config.db_path)
    with looking_at(config) as db:
        loaded, spent, calls = look(db, day=day_of(now)), totals(db), tool_calls(db)
    for sentence in loaded.unreadable:
        complain(sentence)
    report = {
        **_report(config, service, loaded, spent, now),
        **_rules(found, loaded, day_of(now)),
        "tool_calls": calls,
    }
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return DONE


def _report(
    config: Config, service: dict[str, Any] | None, loaded: Loaded, all_runs: Totals, now: float
) -> dict[str, Any]:
    hide, schedule = Redactor(config.secrets).text, loaded.schedule

    def named(issue_id: str, identifier: str) -> dict[str, Any]:
        view = schedule.issues.get(issue_id)
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
                "stopping": claim.stop,
            }
            for claim in schedule.running.values()
        ],
        "retrying": [
            {
                **named(waiting.issue_id, waiting.identifier),
                "kind": waiting.retry.kind,
                "attempt": waiting.retry.attempt,
                "due_at": stamp(waiting.retry.due_at),
                "error": hide(waiting.retry.error),
            }
            for waiting in schedule.waiting.values()
        ],
        "parked": [
            {
                **named(parked.issue_id, parked.identifier),
                "kind": parked.park.kind,
                "attempt": parked.park.attempt,
                "since": stamp(parked.since),
                "reason": hide(parked.park.reason),
            }
            for parked in schedule.parked.values()
        ],
        "paused": [
            {
                "agent": provider,
                "kind": pause.error_kind,
                "until": stamp(pause.until),
                "reason": hide(pause.detail),
            }
            for provider, pause in schedule.pauses.items()
            if pause.error_kind != "rate_limited" or pause.until > now
        ],
        "totals": all_runs,
    }


def _rules(found: Examination, loaded: Loaded, day: str) -> dict[str, Any]:
    """What follows from the workflow. Nobody knows it while that is broken: defaults would make it up."""
    broken = found.workflow is None
    budget = found.config.budget
    idle = [] if broken else list(_idle(found.config, loaded))
    return {
        "workflow_broken": broken,
        "ready": [item for item in idle if item["rule"] in ONLY_ITS_TURN],
        "held_back": [item for item in idle if item["rule"] not in ONLY_ITS_TURN],
        "budget": {
            "day": day,
            "today": asdict(loaded.schedule.spent_today(day)),
            "per_day": None if broken else asdict(budget.per_day),
            "per_issue": None if broken else asdict(budget.per_issue),
        },
    }


def _idle(config: Config, loaded: Loaded) -> Iterator[dict[str, Any]]:
    """What is active and neither runs, waits nor is parked, the next one first; with the rule that applies."""
    hide, policy, schedule = Redactor(config.secrets).text, config.policy(), loaded.schedule
    held = {*schedule.running, *schedule.waiting, *schedule.parked}
    for view in sorted(schedule.issues.values(), key=lambda view: dispatch_order(view, None)):
        if view.id not in held and policy.is_active(view.state):
            rule, detail = schedule.skips.get(view.id, ("", ""))
            yield {
                "issue_id": view.id,
                "identifier": view.identifier,
                "title": hide(view.title),
                "rule": rule,
                "detail": hide(detail),
            }


def _print_report(report: dict[str, Any]) -> None:
    print_sentence(_service_line(report))
    for paused in report["paused"]:
        print_sentence(_paused(paused))
    _section("running", report["running"], attempt="attempt", turn="turn", since="started_at")
    _section("waiting", report["retrying"], attempt="attempt", why="kind", until="due_at", error="error")
    _section("parked", report["parked"], kind="kind", since="since", reason="reason")
    for title, part in (("ready", "ready"), ("held back", "held_back")):
        items = [{**item, "why": _held_back(item["rule"], item["detail"])} for item in report[part]]
        _section(title, items, most=IDLE_SHOWN, because="why")
    click.echo()
    if report["workflow_broken"]:
        print_sentence(
            "The workflow is broken: nobody knows what is ready, nor the limits; `sortie validate` says how."
        )
    print_sentence(_today(report["budget"]))
    print_sentence(_all_time(report["totals"]))
    if report["tool_calls"]:
        print_sentence(f"tool calls: {_calls(report['tool_calls'])}")
    if report["parked"]:
        print_sentence(
            "A parked issue starts again after a person changed it in the tracker, or by `sortie unpark ISSUE`."
        )


def _service_line(report: dict[str, Any]) -> str:
    service = report["service"]
    if service:
        return f"The service runs: pid {service.get('pid', '?')}, since {service.get('since', '?')}."
    if report["running"]:
        return "The service is not running: it died during the runs below. `sortie run` resumes them."
    return "The service is not running; `sortie run` starts it."


def _paused(paused: dict[str, Any]) -> str:
    if paused["kind"] == "rate_limited":
        return f"The {paused['agent']} agent is paused until {paused['until']}: {paused['reason']}"
    return (
        f"The {paused['agent']} agent cannot run, so nothing starts: {paused['reason']} "
        "It goes on by itself when that is repaired; `sortie retry --all` tries at once."
    )


def _section(title: str, items: list[dict[str, Any]], *, most: int | None = None, **columns: str) -> None:
    """A table of issues; `columns` says which field stands under which header."""
    if not items:
        return
    click.echo(f"\n{title} ({len(items)})")
    rows = [
        [item["identifier"], short(item["title"], TITLE_WIDTH), *(str(item[field]) for field in columns.values())]
        for item in items[:most]
    ]
    print_table(Columns(("issue", "title", *columns), rows, cut=SENTENCES, spare=SPARE))
    if len(items) > len(rows):
        click.echo(f"… and {len(items) - len(rows)} more")


def _held_back(rule: str, detail: str) -> str:
    if not rule:
        return "nothing holds it back"
    words = RULES.get(rule, rule)
    return f"{words}: {detail}" if detail else words


def _today(budget: dict[str, Any]) -> str:
    spent = Spent(**budget["today"])
    if budget["per_day"] is None:
        used = f"{spent.sessions} sessions, {spent.turns} turns, {spent.tokens:,} tokens, ${spent.usd:.2f}"
        return f"today ({budget['day']}, UTC): {used}"
    limits = Limits(**budget["per_day"])
    parts = [
        f"{spent.sessions} of {_bound(limits.sessions)} sessions",
        f"{spent.turns} of {_bound(limits.turns)} turns",
        f"{spent.tokens:,} of {_bound(limits.tokens)} tokens",
        f"${spent.usd:.2f} of {'no limit' if limits.usd is None else f'${limits.usd:.2f}'}",
    ]
    return f"today ({budget['day']}, UTC): {', '.join(parts)}"


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
