"""What the store of a plan knows, read without disturbing whoever works on it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..core.schedule import Schedule
from ..errors import SortieError
from ..plans.plan import Plan
from ..plans.standing import Standing, standings
from ..store.connect import connect_readonly
from ..store.load import load
from ..store.lock import holder_of
from ..store.queries import events, used_by_issue
from ..store.sqlite_errors import explain

if TYPE_CHECKING:
    from ..store.queries import LoggedEvent, Used


class Known(NamedTuple):
    """The schedule, how every task stands by it, and whether somebody works on the plan now."""

    schedule: Schedule
    standings: dict[str, Standing]
    served: bool


@contextmanager
def _looking_at(plan: Plan) -> Iterator[sqlite3.Connection]:
    with closing(connect_readonly(plan.store)) as db:
        try:
            yield db
        except sqlite3.Error as error:
            raise explain(error, plan.store) from error


def require_store(plan: Plan) -> None:
    if not plan.store.exists():
        raise SortieError("The plan has not been run yet.", fix="`sortie plan run` runs it.")


def is_served(plan: Plan) -> bool:
    """Whether somebody works on it now."""
    return plan.store.exists() and holder_of(plan.store) is not None


def known_of(plan: Plan, *, is_locked: bool = False) -> Known:
    """Of a plan that was never run, that nothing began. `is_locked`: by us, so nobody works on it."""
    schedule, served = Schedule(), not is_locked and is_served(plan)
    if plan.store.exists():
        with _looking_at(plan) as db:
            schedule = load(db).schedule
    return Known(schedule, standings(plan, schedule, time.time(), served=served), served)


def used_by_task(plan: Plan) -> dict[str, Used]:
    """What the finished runs of each task took; reads all of them."""
    if not plan.store.exists():
        return {}
    with _looking_at(plan) as db:
        return used_by_issue(db)


def events_of(plan: Plan, task: str, most: int) -> list[LoggedEvent]:
    """The last so many that are about it, the oldest first."""
    if not plan.store.exists():
        return []
    with _looking_at(plan) as db:
        return events(db, issue_id=task, limit=most, last=True)
