"""`/runs`: finished runs, filtered and sorted; `/runs/…`: one run, while it is running and afterwards."""

from __future__ import annotations

import time
from typing import get_args

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...core.model import RunStatus
from ...core.narrate import CAUSES
from ...core.policy import day_of
from ...reports.run_detail import run_detail
from ...reports.runs import FURTHEST, SORTS, Sort, runs_page
from ...reports.usage import lately_used
from ...store.queries import find_issue
from ..render import page
from ..site import Site
from .errors import error_page
from .parts import MOST_TEXT, number_in, prompts_told

SIZE = 50
LINES = 400
# Agents and models of so many seconds are offered to choose from.
LATELY = 30 * 86400.0
LONGEST_FILTER = 200
STATUSES: tuple[str, ...] = get_args(RunStatus)


def routes(site: Site) -> list[BaseRoute]:
    def runs(request: Request) -> Response:
        wanted = _wanted(request.query_params)
        sort: Sort = next((one for one in SORTS if one == wanted["sort"]), "ended")
        with site.looking() as db:
            found = runs_page(
                db,
                hide=site.hide,
                issue=(find_issue(db, wanted["issue"]) or wanted["issue"]) if wanted["issue"] else None,
                status=wanted["status"],
                agent=wanted["agent"],
                model=wanted["model"],
                text=wanted["text"],
                sort=sort,
                descending=wanted["order"] != "up",
                page=number_in(request.query_params.get("page"), 1),
                size=SIZE,
            )
            agents, models = lately_used(db, since=day_of(time.time() - LATELY))
        return page(
            site,
            request,
            "runs.html",
            here="runs",
            found=found,
            wanted=wanted,
            sort=sort,
            statuses=STATUSES,
            furthest=FURTHEST,
            agents=agents,
            models=models,
        )

    def run(request: Request) -> Response:
        run_id = request.path_params["run_id"]
        asked = request.query_params
        with site.looking() as db:
            detail = run_detail(db, run_id, hide=site.hide)
        if detail is None:
            return error_page(site, request, 404, f"There is no run {run_id}.")
        at_end = "after" not in asked and "before" not in asked
        return page(
            site,
            request,
            "run.html",
            here="runs",
            run=detail,
            said=site.transcript(
                run_id,
                after=asked.get("after", ""),
                before=asked.get("before", ""),
                limit=LINES,
                most=MOST_TEXT,
            ),
            prompts_told=prompts_told(run_id, site.prompts(run_id)),
            at_end=at_end,
            causes=CAUSES,
        )

    return [
        Route("/runs", runs, methods=["GET"]),
        Route("/runs/{run_id}", run, methods=["GET"]),
    ]


def _wanted(asked: QueryParams) -> dict[str, str]:
    """What the form says; nothing where it was left out."""
    names = ("text", "issue", "status", "agent", "model", "sort", "order")
    return {name: asked.get(name, "").strip()[:LONGEST_FILTER] for name in names}
