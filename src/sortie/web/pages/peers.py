"""`/peers`: agents that share a checkout: whose turn it is, their mail as a board, their work log."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...reports.peers import peers_report
from ..render import page, peers_of
from ..site import Site
from .errors import error_page
from .now import whole

SIZE = 20
NO_PEERS = "No agents share a checkout here; `sortie peers init` sets one up."


def routes(site: Site) -> list[BaseRoute]:
    def peers(request: Request) -> Response:
        place = peers_of(site)
        if place is None:
            return error_page(site, request, 404, NO_PEERS)
        skip = whole(request.query_params.get("skip"), 0)
        report = peers_report(place, hide=site.hide, skip=skip, size=SIZE)
        return page(site, request, "peers.html", here="peers", report=report, skip=skip, size=SIZE)

    return [Route("/peers", peers, methods=["GET"])]
