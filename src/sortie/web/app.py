"""The ASGI application: the routes of all parts, and the middleware in front of them."""

from __future__ import annotations

import sqlite3
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute

from ..errors import SortieError
from . import api_v1, api_v2, login, metrics, pages, stream, webhooks
from .access import Guard
from .addresses import API
from .json_api import STORE_UNAVAILABLE, Problem
from .pages.errors import error_page
from .site import Site

# By the status of the answer: a code for programs, and a sentence for people.
WORDS = {
    HTTPStatus.NOT_FOUND: ("not_found", "There is nothing at this address."),
    HTTPStatus.METHOD_NOT_ALLOWED: ("method_not_allowed", "This address does not support this method."),
    HTTPStatus.SERVICE_UNAVAILABLE: (STORE_UNAVAILABLE, "The store cannot be used."),
}


def make_app(site: Site) -> Starlette:
    # The stream stands before the rest of its surface: it never ends, and nothing else there may take its address.
    parts = (login, webhooks, stream, api_v1, api_v2, metrics, pages)
    routes: list[BaseRoute] = [route for part in parts for route in part.routes(site)]

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _answer(site, request, error.status_code, "", dict(error.headers or {}))

    def unreadable(request: Request, error: Exception) -> Response:
        return _answer(site, request, HTTPStatus.SERVICE_UNAVAILABLE, f"The store cannot be used: {error}")

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, site=site)],
        exception_handlers={HTTPException: refused, SortieError: unreadable, sqlite3.Error: unreadable},
    )
    # From `/login/` to `/login` it would lead by an address with `http`, also where a proxy before us encrypts.
    app.router.redirect_slashes = False
    return app


def _answer(
    site: Site, request: Request, status: int, sentence: str, headers: dict[str, str] | None = None
) -> Response:
    code, usual = WORDS.get(HTTPStatus(status), ("refused", f"{HTTPStatus(status).phrase}."))
    if request.url.path.startswith(API):
        return Problem(status, code, site.hide(sentence or usual), headers).answer()
    if status == HTTPStatus.METHOD_NOT_ALLOWED:  # no link and no form of ours leads there
        return PlainTextResponse(f"{usual}\n", status, headers)
    answer = error_page(site, request, status, site.hide(sentence or usual))
    answer.headers.update(headers or {})
    return answer
