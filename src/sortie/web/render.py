"""Renders pages from templates: one Jinja environment with autoescaping.

Every page shows the time of its data, the state of the service, and whether its reader may change something.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse

from .. import __version__
from ..protocol.web_address import issue_path
from ..reports import words
from ..reports.peers import find_peers
from ..sources.peer_turns import STORE as PEERS_STORE
from . import show
from .access import Access
from .replies import Shown
from .site import Site
from .static import address, digest

# It stands in every form of a page.
LONGEST_KEPT = 40
TEMPLATES = Path(__file__).with_name("templates")


class Service(Struct, frozen=True):
    """How the service stands, in a word for the style sheet and a sentence for people. `heard_at` is when it said
    something last, 0 where it never did."""

    state: str
    sentence: str
    heard_at: float = 0.0

    @property
    def is_lost(self) -> bool:
        """It was there, and says nothing any more: what is shown is how it was then."""
        return self.state in ("silent", "down") and self.heard_at > 0


class Link(Struct, frozen=True):
    path: str
    title: str
    key: str
    is_here: bool


@cache
def environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    texts = (show.line, show.lines, show.stamp, show.dated, show.clock, show.duration, show.brief)
    amounts = (show.money, show.cost, show.tokens, show.size)
    addresses = (issue_path, show.task_path, show.run_path)
    found.filters |= {one.__name__: one for one in (*texts, *amounts, *addresses)}
    found.filters |= {"counted": words.count, "commands": commands}
    found.filters |= {"chip_name": show.word, "anchor": show.anchor}
    found.globals |= {
        "once": _once,
        "query": show.query,
        "static": address,
        "version": __version__,
        "build": digest(),
    }
    return found


def page(
    site: Site, request: Request, template: str, *, status: int = 200, here: str = "", **context: Any
) -> HTMLResponse:
    """`here` is the part of the navigation that the page belongs to."""
    now = time.time()
    found = environment().get_template(template)
    text = found.render(
        now=now,
        age=lambda at: show.age(at, now),
        until=lambda at: show.until(at, now),
        service=service_of(site),
        navigation=_navigation(site, here),
        is_plan=site.is_plan,
        token_command=site.token_command,
        read_only=site.read_only,
        has_token=has_token(request),
        may_operate=may_operate(request) and not site.read_only,
        reply=_reply(site, request),
        kept=lambda **changes: _kept(request, changes),
        **context,
    )
    return HTMLResponse(text, status, {"Cache-Control": "no-store"})


def _once() -> str:
    """The mark of one form on one page."""
    return secrets.token_urlsafe(12)


def may_operate(request: Request) -> bool:
    """Whether the sender of the request may change something; no, if that was not checked."""
    access = _access(request)
    return access is not None and access.may_operate


def has_token(request: Request) -> bool:
    """Whether the request had a valid token, of any scope."""
    access = _access(request)
    return access is not None and access.scope is not None


def _access(request: Request) -> Access | None:
    return getattr(request.state, "access", None)


def service_of(site: Site) -> Service:
    report = site.live.now()
    if report is not None:
        if report.draining:
            return Service("draining", "The service is stopping; nothing new starts.", site.live.heard_at)
        return Service("up", "The service runs.", site.live.heard_at)
    if site.is_served:
        if site.live.heard_at:
            return Service("silent", "The service does not respond.", site.live.heard_at)
        return Service("up", "The service runs.")
    if site.database.name == PEERS_STORE:
        return Service("down", "No agent has a turn now; `sortie turn` starts one.", site.live.heard_at)
    return Service("down", f"The service is not running; `{site.start_command}` starts it.", site.live.heard_at)


def _navigation(site: Site, here: str) -> list[Link]:
    parts = [("/", "Now", "n"), ("/runs", "Runs", "r"), ("/money", "Money", "m"), ("/health", "Health", "h")]
    if site.is_plan:
        parts.insert(1, ("/plan", "Plan", "p"))
    if find_peers(site.place) is not None:
        parts.insert(-2, ("/peers", "Peers", "e"))
    return [Link(path, title, key, here == title.lower()) for path, title, key in parts]


def _kept(request: Request, changes: Mapping[str, object]) -> str:
    """What the address of the page asks for, with these changes: whoever turns the pages of one list, or decides
    something in it, stays where he is in the others."""
    told = request.query_params.items()
    asked = {name: value for name, value in told if name != "reply" and len(name + value) <= LONGEST_KEPT}
    return show.query(**{**asked, **changes})


def _reply(site: Site, request: Request) -> Shown | None:
    """What became of the command that led here."""
    return site.replies.shown(request.query_params.get("reply", ""))


def commands(text: str) -> Markup:
    """A sentence of ours, with the commands in it set apart, and its times as people read them."""
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else show.dated(piece)
        for number, piece in enumerate(pieces)
    )
