"""`sortie plan status` and `why`: how the tasks stand, and why. While the plan runs, and after it died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..plans.picture import TaskLine, counted
from ..plans.plan import Plan
from ..plans.progress import Memo
from ..plans.standing import Standing, left_to_people
from ..reports.plan_standing import hider_of, is_served, known_of, looking_at_plan, task_lines
from ..reports.timeline import Entry, entries_before
from .format import amount, clean, duration, runnable
from .main import DONE
from .plan import load_to_look, plan_argument, plan_option, require_task
from .printing import Columns, json_option, print_json, print_sentence, print_table
from .why import EVENTS_SHOWN

MOST_LISTED = 200
MOST_NAMED = 5


@click.command("status")
@plan_argument
@json_option
def status_command(plan: Path, as_json: bool) -> int:
    """Show how every task stands and why, what its agent says, and what it took."""
    loaded = load_to_look(plan)
    lines = task_lines(loaded)
    if as_json:
        print_json(plain(loaded, lines))
    else:
        print_standing(loaded, lines)
    return DONE


@click.command("why")
@click.argument("task")
@click.option("--all", "everything", is_flag=True, help="Show the small steps too.")
@plan_option
@json_option
def why_command(task: str, everything: bool, plan: Path, as_json: bool) -> int:
    """Explain a task: how it stands, what it waits for, what is odd about it, and all that happened to it."""
    loaded = load_to_look(plan)
    require_task(loaded, task)
    schedule, found, _ = known_of(loaded)
    view = schedule.issues.get(task)
    memo = Memo.decode(view.memo) if view else Memo()
    log = _story(loaded, task, everything=everything)
    if as_json:
        told = {
            "task": task,
            "state": found[task].state,
            "note": found[task].note,
            "waits_for": _waits(loaded, task, found),
        }
        print_json({**told, "memo": memo, "events": log})
        return DONE
    print_sentence(_sentence(task, found[task]))
    for name, state in _waits(loaded, task, found).items():
        click.echo(clean(f"  waits for {name}: {state}"))
    for finding in memo.findings:
        click.echo(clean(f"  odd: {finding}"))
    for entry in log:
        click.echo(f"{entry.time}  {clean(entry.text)}")
    return DONE


def _story(plan: Plan, task: str, *, everything: bool) -> list[Entry]:
    if not plan.store.exists():
        return []
    with looking_at_plan(plan) as db:
        return entries_before(db, task, None, EVENTS_SHOWN, hider_of(plan), everything=everything)[0]


def _sentence(task: str, standing: Standing) -> str:
    note = f": {standing.note}" if standing.note else ""
    help_with = {
        "escalated": f" `sortie plan retry {task}`, `fix`, `skip` or `accept` decides.",
        "failed": f" `sortie plan retry {task}` tries it again, `fix` with a corrected input, `skip` does without.",
        "incomplete": f" `sortie plan retry {task}` tries it again, `accept` takes what is there.",
    }
    state = "failed" if standing.state == "failed" else f"is {standing.state}"
    return f"{task} {state}{note.rstrip('.')}.{help_with.get(standing.state, '')}"


def _waits(plan: Plan, task: str, found: dict[str, Standing]) -> dict[str, str]:
    return {name: found[name].state for name in plan.by_name[task].waits_for}


# -- how the tasks stand ----------------------------------------------------------------------------------------


def print_standing(plan: Plan, lines: Sequence[TaskLine]) -> None:
    counts = Counter(line.state for line in lines)
    cost, tokens = sum(line.cost_usd for line in lines), sum(line.tokens for line in lines)
    spent = f" ({amount(tokens)} tokens, ${cost:.2f})" if tokens or cost else ""
    print_sentence(f"{plan.name}: {counted(counts)}{spent}", "bold")
    rows = [
        (
            line.name,
            line.state,
            duration(line.seconds) if line.seconds else "",
            amount(line.tokens) if line.tokens else "",
            f"${line.cost_usd:.2f}" if line.cost_usd else "",
            line.progress or line.note,
        )
        for line in lines[:MOST_LISTED]
    ]
    headers = ("task", "state", "time", "tokens", "cost", "because")
    spare = ("tokens", "cost", "time")
    # Agents that cost nothing, or tell nothing about it, take no column for it.
    shown = [at for at, header in enumerate(headers) if header not in spare or any(row[at] for row in rows)]
    columns = [headers[at] for at in shown]
    print_table(
        Columns(columns, [[row[at] for at in shown] for row in rows], right=spare, cut=("because",), spare=spare)
    )
    if len(lines) > MOST_LISTED:
        click.echo(runnable(f"… and {len(lines) - MOST_LISTED} more: `sortie plan status --json` has all of them."))


def what_is_left(plan: Plan, lines: Sequence[TaskLine]) -> str:
    """Which tasks a person has to decide about before their plan can go on, and how."""
    names = left_to_people(plan, {line.name: line.state for line in lines})
    if not names:
        open_ones = sorted(
            (line for line in lines if line.state != "completed"), key=lambda line: line.state != "ready"
        )
        held = open_ones[0].name if open_ones else "TASK"
        return f"Not every task is completed: `sortie plan why {held}` says why."
    one, more = names[0], len(names) - MOST_NAMED
    named = ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"Left to you: {named}. `sortie plan why {one}` tells what happened; `sortie plan retry {one}`, `fix`, "
        "`skip` or `accept` decides, and `sortie plan run` goes on."
    )


def plain(plan: Plan, lines: Sequence[TaskLine]) -> dict[str, Any]:
    return {
        "plan": plan.name,
        "file": str(plan.path),
        "folder": str(plan.root),
        "running": is_served(plan),
        "counts": dict(Counter(line.state for line in lines)),
        "tasks": [
            {
                "task": line.name,
                "state": line.state,
                "note": line.note,
                "progress": line.progress,
                "layer": line.layer,
                "waits_for": list(plan.by_name[line.name].waits_for),
                "seconds": round(line.seconds, 3),
                "tokens": line.tokens,
                "cost_usd": line.cost_usd,
            }
            for line in lines
        ],
    }
