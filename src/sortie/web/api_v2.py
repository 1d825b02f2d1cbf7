"""`/api/v2`: the routes, and the OpenAPI description, made from the same table of operations.

The stream has a route of its own, and is described with the others.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .addresses import API_V2
from .api_v2_operations import OPERATIONS
from .json_api import STORE_UNAVAILABLE, Address, Handler, json_answer
from .openapi import described
from .operation import Operation, carried_out
from .site import Site
from .stream import STREAM


def routes(site: Site) -> list[BaseRoute]:
    by_path: dict[str, dict[str, Handler]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = _handler(operation, site)
    # The longer one first: a name in an address may have slashes.
    paths = sorted(by_path, key=lambda path: -path.count("/"))
    return [
        Route(f"{API_V2}/openapi.json", Address({"GET": _description}, unreadable=STORE_UNAVAILABLE)),
        *(Route(API_V2 + _pattern(path), Address(by_path[path], unreadable=STORE_UNAVAILABLE)) for path in paths),
    ]


def _handler(operation: Operation, site: Site) -> Handler:
    async def handle(request: Request) -> Response:
        return await carried_out(operation, site, request)

    return handle


def _pattern(path: str) -> str:
    """An address as Starlette writes it: whatever has a name reaches over slashes."""
    return path.replace("}", ":path}")


def _description(_: Request) -> Response:
    return json_answer(described((*OPERATIONS, STREAM), API_V2))
