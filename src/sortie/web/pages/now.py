"""`/`: what needs a person, what runs, what waits and what holds it, what was spent today."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...core.model import Limits
from ...core.narrate import RULES
from ...core.policy import Spent
from .. import show
from ..render import page
from ..site import Site

# Of each list on one page; the others are behind a link.
SHOWN = 25
REVIEWS = 8
T = TypeVar("T")

KINDS = {
    "signal": "question",
    "error": "failed",
    "budget": "out of budget",
    "operator": "stopped by hand",
    "review": "ready for review",
    "out-of-budget": "out of budget",
    "agent": "agent cannot run",
}


class Part(Struct, Generic[T], frozen=True):
    """A list of which only some are shown; `page` counts from 1."""

    name: str
    items: Sequence[T]
    total: int
    page: int
    pages: int


class Bar(Struct, frozen=True):
    """How much of a limit is used; `limit` is None where there is none. `look` is what the style sheet calls it."""

    title: str
    used: float
    limit: float | None
    used_text: str
    limit_text: str
    look: str


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


def part(name: str, items: Sequence[T], wanted: str | None, size: int = SHOWN) -> Part[T]:
    """The page that was asked for, or the nearest one that there is."""
    pages = max(-(-len(items) // size), 1)
    number = min(max(whole(wanted, 1), 1), pages)
    return Part(name, items[(number - 1) * size : number * size], len(items), number, pages)


def whole(text: str | None, default: int) -> int:
    """Of an address anybody may have written."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 12 else default


def bars(spent: Spent, limits: Limits | None) -> list[Bar]:
    limits = limits or Limits()
    return [
        bar("Dollars", spent.usd, limits.usd, show.money),
        bar("Tokens", spent.tokens, limits.tokens, show.tokens),
        bar("Turns", spent.turns, limits.turns, show.whole),
        bar("Sessions", spent.sessions, limits.sessions, show.whole),
    ]


def bar(title: str, used: float, limit: float | None, words: show.Amount) -> Bar:
    share = used / limit if limit else 0.0
    look = "over" if share >= 1 else "near" if share >= 0.8 else "within"
    return Bar(title, used, limit, words(used), "no limit" if limit is None else f"of {words(limit)}", look)
