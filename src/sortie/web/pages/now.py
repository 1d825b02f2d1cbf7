"""`/`: what needs a person, what runs, what waits and what holds it, what was spent today."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...core.narrate import RULES
from ..render import page
from ..site import Site
from .parts import bars, part

# Of what is to be reviewed, so many on one page.
REVIEWS = 8

KINDS = {
    "signal": "question",
    "error": "failed",
    "budget": "out of budget",
    "operator": "stopped by hand",
    "review": "ready for review",
    "out-of-budget": "out of budget",
    "agent": "agent cannot run",
    "tracker": "tracker cannot be used",
    "store": "store cannot be written",
}


def routes(site: Site) -> list[BaseRoute]:
    def now_page(request: Request) -> Response:
        with site.looking() as db:
            report = site.status(db)
        asked, needs = request.query_params, report.needs_person
        return page(
            site,
            request,
            "now.html",
            here="now",
            report=report,
            needs=part("needs", [one for one in needs if one.kind != "review"], asked.get("needs")),
            reviews=part("reviews", [one for one in needs if one.kind == "review"], asked.get("reviews"), REVIEWS),
            running=part("running", report.running, asked.get("running")),
            retrying=part("retrying", sorted(report.retrying, key=lambda one: one.due_at), asked.get("retrying")),
            held=part("held", report.held_back, asked.get("held")),
            ready=part("ready", report.ready, asked.get("ready")),
            bars=bars(report.budget.today, report.budget.per_day),
            kinds=KINDS,
            rules=RULES,
        )

    return [Route("/", now_page, methods=["GET"])]
