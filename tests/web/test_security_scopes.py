"""Which token opens what: every address of the application with every method, as every kind of caller."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from starlette.routing import Route

from sortie.web.app import make_app
from tests.store.sample import noted

from .live_server import DEADLINE, LiveServer, new_store, served

CALLERS = ("nobody", "metrics", "read", "operate")
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE")
SAFE = ("GET", "HEAD", "OPTIONS")
REFUSED = (401, 403)


@pytest.fixture(scope="module", params=["127.0.0.1", "0.0.0.0"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    store = new_store(tmp_path_factory.mktemp("scopes") / "sortie.db", noted("begun", issue="1"))
    with served(store, host=request.param) as started:
        yield started


def paths(server: LiveServer) -> list[str]:
    """Every address, with something in the place of its names."""
    found = []
    for route in make_app(server.site).routes:
        assert isinstance(route, Route), f"{route} is no plain address: say here how it is guarded"
        found.append(re.sub(r"\{[^}]*\}", "1", route.path))
    return sorted({*found, "/nowhere", "/api/v2/nowhere"})


def wanted(path: str, method: str, *, on_loopback: bool) -> str:
    """The least scope that is let through; empty where everybody is."""
    if path in ("/login", "/logout"):
        return ""
    if method in SAFE:
        if on_loopback or path.startswith("/static/") or path == "/favicon.ico":
            return ""
        return "metrics" if path == "/metrics" else "read"
    if path.startswith("/webhooks/"):
        return ""
    # Of these one asks for a look, and all others know no method that changes anything.
    if on_loopback and (path.startswith("/api/v1/") or path in ("/livez", "/readyz")):
        return ""
    return "operate"


def is_enough(caller: str, scope: str) -> bool:
    return scope == "" or CALLERS.index(caller) >= CALLERS.index(scope)


def status_of(server: LiveServer, method: str, path: str, headers: dict[str, str]) -> int:
    """Without the body: a stream has no end."""
    with closing(http.client.HTTPConnection(server.host, server.port, timeout=DEADLINE)) as connection:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status


@pytest.mark.parametrize("caller", CALLERS)
def test_every_address_with_every_method_opens_for_whom_it_is_meant(server, caller):
    headers = {} if caller == "nobody" else {"Authorization": server.bearer(caller)}
    wrong = []
    for path in paths(server):
        for method in METHODS:
            scope = wanted(path, method, on_loopback=server.site.host == "127.0.0.1")
            status = status_of(server, method, path, headers)
            if is_enough(caller, scope):
                # What a webhook, a login or a read-only address says by itself is its own affair.
                right = status not in REFUSED or path in ("/login", "/webhooks/tracker")
            else:
                right = status == (401 if caller == "nobody" else 403)
            if not right or (status >= 500 and status != 503):
                wrong.append(f"{caller}: {method} {path} -> {status}")
    assert wrong == []


def test_there_are_addresses_of_every_part(server):
    found = " ".join(paths(server))
    for part in (
        "/api/v1/state",
        "/api/v2/",
        "/metrics",
        "/api/v2/events/stream",
        "/issues/1",
        "/static/",
        "/favicon.ico",
        "/login",
    ):
        assert part in found
