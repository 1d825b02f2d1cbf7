"""`POST /webhooks/tracker`: a tracker's server reports a change, so the service polls now.

Its contents are not used: a valid signature triggers a poll, no more.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from ..errors import StoreError
from ..store.commands import ask_for_look
from ..trackers.webhooks import is_authentic
from .addresses import TRACKER_WEBHOOK
from .site import Site

_SOON = "5"


def routes(site: Site) -> list[BaseRoute]:
    async def tracker(request: Request) -> Response:
        return await run_in_threadpool(_heard, site, dict(request.headers), await request.body())

    return [Route(TRACKER_WEBHOOK, tracker, methods=["POST"])]


def _heard(site: Site, headers: dict[str, str], body: bytes) -> Response:
    secret = site.server.webhook_secret
    if site.read_only or not secret:
        return PlainTextResponse("This server accepts no webhooks.\n", 404)
    if not is_authentic(secret, headers, body):
        return PlainTextResponse("The signature does not match the secret.\n", 401)
    try:
        ask_for_look(site.database)
    except StoreError:
        return PlainTextResponse("The store cannot be written now.\n", 503, {"retry-after": _SOON})
    return PlainTextResponse("The service polls the tracker.\n", 202)
