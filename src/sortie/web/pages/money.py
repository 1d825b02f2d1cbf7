"""`/money`: usage by day against the limit, by issue, by agent and model; unmeasured usage is shown as such."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...reports.usage import UsageReport
from ..render import page
from ..site import Site
from .parts import bars, number_in

SPANS = (7, 30, 90, 365)


def routes(site: Site) -> list[BaseRoute]:
    def money(request: Request) -> Response:
        asked = number_in(request.query_params.get("days"), 30)
        days = asked if asked in SPANS else 30
        with site.looking() as db:
            report = site.usage(db, days)
        return page(
            site,
            request,
            "money.html",
            here="money",
            report=report,
            days=days,
            spans=SPANS,
            bars=bars(report.today, report.per_day),
            cost_plot=_cost(report),
            token_plot=_tokens(report),
        )

    return [Route("/money", money, methods=["GET"])]


def _days(report: UsageReport) -> list[int]:
    return [int(datetime.strptime(one.day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) for one in report.days]


def _cost(report: UsageReport) -> dict[str, Any] | None:
    if not report.total.cost_usd:
        return None
    return {
        "kind": "days",
        "unit": "$",
        "x": _days(report),
        "series": [{"label": "cost", "colour": "blue", "values": [one.used.cost_usd for one in report.days]}],
        "limit": report.per_day.usd if report.per_day else None,
    }


def _tokens(report: UsageReport) -> dict[str, Any] | None:
    """Stacked: the upper edge of the second is all there were."""
    if not report.total.total_tokens:
        return None
    cached = [one.used.cache_read_tokens for one in report.days]
    new = [one.used.new_tokens for one in report.days]
    return {
        "kind": "stacked",
        "unit": "",
        "x": _days(report),
        "series": [
            {"label": "new tokens", "colour": "blue", "values": new},
            {"label": "cached tokens", "colour": "teal", "values": cached},
        ],
        "limit": report.per_day.tokens if report.per_day else None,
    }
