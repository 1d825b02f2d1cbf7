"""`/peers`: agents that share a checkout: whose turn it is, their mail as a board, their work log."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...reports.peers import find_peers, peers_report
from ..render import page
from ..site import Site
from .errors import error_page
from .parts import number_in

SIZE = 20
NO_PEERS = "No agents share a checkout here; `sortie peers init` sets one up."


def routes(site: Site) -> list[BaseRoute]:
    def peers(request: Request) -> Response:
        place = find_peers(site.place)
        if place is None:
            return error_page(site, request, 404, NO_PEERS)
        skip = number_in(request.query_params.get("skip"), 0)
        report = peers_report(place, hide=site.hide, skip=skip, size=SIZE)
        return page(site, request, "peers.html", here="peers", report=report, skip=skip, size=SIZE)

    return [Route("/peers", peers, methods=["GET"])]
