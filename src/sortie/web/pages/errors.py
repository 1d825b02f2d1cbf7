"""The error page: one sentence that says what is wrong, in the usual layout."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ..render import page
from ..site import Site

TITLES = {403: "Not allowed", 404: "Not found", 503: "Not now"}


def error_page(site: Site, request: Request, status: int, sentence: str) -> Response:
    return page(site, request, "error.html", status=status, title=TITLES.get(status, "Error"), sentence=sentence)
