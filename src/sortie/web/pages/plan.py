"""`/plan`: the graph of a plan with the state of every task; `/plan/…`: one task, with the story of its runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...errors import SortieError
from ...plans.picture import STATES
from ...plans.plan import Plan
from ...reports.plan import TaskDetail, TaskEdge, load_to_look, plan_report, task_detail
from ..render import page
from ..site import Site
from .errors import error_page
from .issue import about_issue
from .parts import part

LISTED = 50
MARGIN = 20.0
# How a line is dashed, by what it hands on and what happens when that fails.
DASHES = {
    ("data", "block"): "",
    ("data", "continue"): "10 4",
    ("data", "fail"): "10 4 2 4",
    ("order", "block"): "2 4",
    ("order", "continue"): "5 5",
    ("order", "fail"): "5 4 1 4",
}
NO_PLAN = "There is no plan here: this store belongs to a workflow."
# What a person can decide about a task, by its state.
VERBS: dict[str, tuple[str, ...]] = {
    "running": ("stop",),
    "escalated": ("reopen", "accept", "skip"),
    "failed": ("reopen", "accept", "skip"),
    "incomplete": ("reopen", "accept", "skip"),
    "completed": ("reopen",),
    "skipped": ("reopen",),
    "ready": ("skip",),
    "waiting": ("skip",),
    "blocked": ("skip",),
}


class Line(Struct, frozen=True):
    """The way of an edge as SVG draws it."""

    before: str
    after: str
    kind: str
    dash: str
    way: str


def routes(site: Site) -> list[BaseRoute]:
    def whole_plan(request: Request) -> Response:
        plan, remark = _plan(site)
        if plan is None:
            return error_page(site, request, 404, remark)
        report = plan_report(plan)
        order = {state: place for place, state in enumerate(STATES)}
        urgent = sorted(report.nodes, key=lambda node: order.get(node.state, len(order)))
        return page(
            site,
            request,
            "plan.html",
            here="plan",
            plan=report,
            remark=remark,
            lines=[_line(edge) for edge in report.edges],
            margin=MARGIN,
            fits="fit" in request.query_params,
            states=[(state, report.counts[state]) for state in STATES if report.counts.get(state)],
            tasks=part("tasks", urgent, request.query_params.get("tasks"), LISTED),
            done=report.counts.get("completed", 0) + report.counts.get("skipped", 0),
        )

    def one_task(request: Request) -> Response:
        name = request.path_params["task"] or request.query_params.get("named", "")
        plan, remark = _plan(site)
        detail = task_detail(plan, name) if plan else None
        if detail is None:
            return error_page(site, request, 404, f"The plan has no task {name}." if plan else remark)
        try:
            about = about_issue(site, request, name)
        except SortieError:
            about = None  # nothing was run yet
        return page(
            site, request, "task.html", here="plan", task=detail, about=about, verbs=_verbs(detail), remark=remark
        )

    return [
        Route("/plan", whole_plan, methods=["GET"]),
        Route("/plan/{task:path}", one_task, methods=["GET"]),
    ]


def _plan(site: Site) -> tuple[Plan | None, str]:
    if not site.is_plan:
        return None, NO_PLAN
    plan, remark = load_to_look(site.place)
    return plan, remark if plan else "The plan file cannot be read; `sortie plan check` says why."


def _verbs(task: TaskDetail) -> tuple[str, ...]:
    return VERBS.get(task.node.state, ())


def _line(edge: TaskEdge) -> Line:
    return Line(edge.before, edge.after, edge.kind, DASHES[edge.kind, edge.on_failure], "".join(_way(edge)))


def _way(edge: TaskEdge) -> Iterator[str]:
    """Curves between the layers, level within them."""
    (x, y), *_ = edge.points
    yield f"M{x:.0f} {y:.0f}"
    for (left, start), (right, end) in pairwise(edge.points):
        middle = (left + right) / 2
        if start == end:
            yield f"H{right:.0f}"
        else:
            yield f"C{middle:.0f} {start:.0f} {middle:.0f} {end:.0f} {right:.0f} {end:.0f}"
