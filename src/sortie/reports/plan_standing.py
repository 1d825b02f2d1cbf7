"""The states of the tasks of a plan, read from its store, whether a service runs on it or not."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from ..core.redact import Hide, Redactor
from ..core.schedule import Schedule
from ..plans.graph import depths
from ..plans.picture import TaskLine
from ..plans.plan import Plan
from ..plans.standing import Standing, standings
from ..protocol.safefiles import open_directory
from ..protocol.task_status import read_task_status
from ..sources.plan_rules import secrets_of_plan
from ..store.connect import connect_readonly
from ..store.load import load
from ..store.lock import holder_of
from ..store.queries import Used, used_by_issue
from ..store.sqlite_errors import explain

CHANGED = "what it is asked for, or given, changed; the next `sortie plan run` does it again"


class Known(NamedTuple):
    """The schedule, how every task stands by it, and whether somebody works on the plan now."""

    schedule: Schedule
    standings: dict[str, Standing]
    served: bool


@contextmanager
def looking_at_plan(plan: Plan) -> Iterator[sqlite3.Connection]:
    with closing(connect_readonly(plan.store)) as db:
        try:
            yield db
        except sqlite3.Error as error:
            raise explain(error, plan.store) from error


def is_served(plan: Plan) -> bool:
    """Whether a service works on it now."""
    return plan.store.exists() and holder_of(plan.store) is not None


def known_of(plan: Plan, *, is_locked: bool = False) -> Known:
    """Of a plan that was never run, that nothing began. `is_locked`: by us, so nobody works on it."""
    schedule, served = Schedule(), not is_locked and is_served(plan)
    if plan.store.exists():
        with looking_at_plan(plan) as db:
            schedule = load(db).schedule
    return Known(schedule, standings(plan, schedule, time.time(), served=served), served)


def used_by_task(plan: Plan) -> dict[str, Used]:
    """What the finished runs of each task took; reads all of them."""
    if not plan.store.exists():
        return {}
    with looking_at_plan(plan) as db:
        return used_by_issue(db)


def task_lines(plan: Plan, known: Known | None = None) -> list[TaskLine]:
    """Of every task, in the order of the plan file."""
    (schedule, standing, served), used = known or known_of(plan), used_by_task(plan)
    layer, hide, found = depths(plan.edges), hider_of(plan), dict(standing)
    if schedule.issues and not served:
        found |= dict.fromkeys(_done_again(plan, schedule), Standing("outdated", CHANGED))
    return [
        TaskLine(
            name=name,
            state=one.state,
            note=one.note,
            progress=hide(progress_of(plan, name)) if one.state == "running" else "",
            seconds=taken.seconds,
            tokens=taken.tokens,
            cost_usd=taken.cost_usd,
            layer=layer[name],
        )
        for name, one in found.items()
        for taken in [used.get(name, Used())]
    ]


def task_states(plan: Plan) -> dict[str, tuple[str, str]]:
    """State and reason of every task."""
    return {line.name: (line.state, line.note) for line in task_lines(plan)}


def progress_of(plan: Plan, name: str) -> str:
    """What the agent says in `status.json`: `step 3/5 analysing`."""
    try:
        with open_directory(plan.root / name) as folder:
            status = read_task_status(folder).status
    except OSError:
        return ""
    told = status.progress if status else None
    if told is None:
        return ""
    step = f"step {told.steps_completed}/{told.total_steps}" if told.total_steps else ""
    return " ".join(filter(None, (step, told.current_step)))


def hider_of(plan: Plan) -> Hide:
    """What takes secrets out of texts. Those in the store are without them, as far as they were known then."""
    return Redactor(secrets_of_plan(plan, os.environ)).text


def _done_again(plan: Plan, schedule: Schedule) -> Iterable[str]:
    """What the next run does once more, because the plan or its inputs changed."""
    from ..sources.plan_tasks import PlanSource

    source = PlanSource(plan, os.environ)
    source.remember(schedule)
    return source.again
