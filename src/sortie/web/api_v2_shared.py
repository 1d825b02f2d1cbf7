"""What `/api/v2` answers beyond single issues: money, health, changed files, a plan with its tasks, peers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ..core.policy import day_of
from ..plans.plan import Plan
from ..reports.changes import WorkspaceChanges, workspace_changes
from ..reports.health import Health, health_report
from ..reports.peers import PAGE, PeersReport, find_peers, peers_report
from ..reports.plan import PlanReport, TaskDetail, load_to_look, plan_report, task_detail
from ..reports.usage import MOST_DAYS, UsageReport, usage_report
from ..store.lock import holder_of
from .api_v2_looks import issue_meant
from .json_api import Problem
from .operation import Asked, NoParameters
from .site import Site


class PlansAnswer(Struct, frozen=True, kw_only=True):
    """At most one: that of the store. `note` says so where the plan shown is not that of the file."""

    plans: list[PlanReport]
    note: str


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = 30


class PeersQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`skip` so many of the newest entries of the work log."""

    skip: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    size: Annotated[int, Meta(ge=1, le=500)] = PAGE


def changes(asked: Asked[NoParameters, None]) -> WorkspaceChanges:
    """In the workspace of the run that goes on, or of the last one that had one."""
    with asked.site.looking() as db:
        issue_id = issue_meant(db, asked.named["identifier"])
        row = db.execute(
            """SELECT workspace, claimed_at FROM claims WHERE issue_id = ? AND workspace <> ''
               UNION ALL
               SELECT workspace, since FROM (SELECT workspace, unixepoch(started_at) AS since FROM run_history
                   WHERE issue_id = ? AND workspace <> '' ORDER BY id DESC LIMIT 1) LIMIT 1""",
            (issue_id, issue_id),
        ).fetchone()
    if row is None:
        return WorkspaceChanges(kind="unknown", workspace="", problem="No run of it had a workspace yet.")
    workspace, since = row
    return workspace_changes(Path(workspace), since=float(since or 0.0), hide=asked.site.hide)


def health(asked: Asked[NoParameters, None]) -> Health:
    site = asked.site
    with site.looking() as db:
        return health_report(
            db,
            database=site.database,
            config=site.config,
            broken=site.is_broken,
            service=holder_of(site.database),
            now=time.time(),
            hide=site.hide,
            live=site.live.now(),
        )


def usage(asked: Asked[UsageQuery, None]) -> UsageReport:
    site = asked.site
    per_day = None if site.is_broken else site.config.budget.per_day
    with site.looking() as db:
        return usage_report(db, today=day_of(time.time()), days=asked.query.days, per_day=per_day)


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
    place = find_peers(asked.site.place.parent)
    if place is None:
        raise Problem(404, "no_peers", "No agents share a checkout here.")
    return peers_report(place, hide=asked.site.hide, skip=asked.query.skip, size=asked.query.size)
