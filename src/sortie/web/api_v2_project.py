"""The project-wide operations of `/api/v2`: usage, health, the plan with its tasks, peers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..plans.plan import Plan
from ..reports.health import Health
from ..reports.peers import PAGE, PeersReport, find_peers, peers_report
from ..reports.plan import PlanReport, TaskDetail, load_to_look, plan_report, task_detail
from ..reports.usage import MOST_DAYS, UsageReport
from .json_api import Problem
from .operation import Asked, NoParameters
from .site import Site


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = 30


class PlansAnswer(Struct, frozen=True, kw_only=True):
    """At most one: that of the store. `note` says so where the plan shown is not that of the file."""

    plans: list[PlanReport]
    note: str


class PeersQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`skip` so many of the newest entries of the work log."""

    skip: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    size: Annotated[int, Meta(ge=1, le=500)] = PAGE


def usage(asked: Asked[UsageQuery, None]) -> UsageReport:
    with asked.site.looking() as db:
        return asked.site.usage(db, asked.query.days)


def health(asked: Asked[NoParameters, None]) -> Health:
    with asked.site.looking() as db:
        return asked.site.health(db)


def plans(asked: Asked[NoParameters, None]) -> PlansAnswer:
    plan, note = _plan(asked.site)
    return PlansAnswer(plans=[plan_report(plan)] if plan else [], note=note)


def task(asked: Asked[NoParameters, None]) -> TaskDetail:
    (plan, _), name = _plan(asked.site), asked.named["task"]
    found = task_detail(plan, name) if plan else None
    if found is None:
        raise Problem(404, "task_not_found", f"There is no task {name} in a plan here.")
    return found


def _plan(site: Site) -> tuple[Plan | None, str]:
    return load_to_look(site.place) if site.is_plan else (None, "")


def peers(asked: Asked[PeersQuery, None]) -> PeersReport:
    place = find_peers(asked.site.place)
    if place is None:
        raise Problem(404, "no_peers", "No agents share a checkout here.")
    return peers_report(place, hide=asked.site.hide, skip=asked.query.skip, size=asked.query.size)
