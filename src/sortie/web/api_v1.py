"""`/api/v1`, `/livez` and `/readyz`: the API that is compatible with other implementations."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .. import __version__
from ..engine.report import LiveReport
from ..errors import SortieError
from ..reports.words import seconds_of, stamp
from ..store.commands import ask_for_look
from ..store.load import look, snapshot
from ..store.lock import holder_of
from .addresses import API_V1
from .api_v1_answers import V1Health, V1Ready, V1Refresh, Verdict
from .api_v1_state import Present, find_active
from .json_api import Address, Problem, json_answer
from .site import Site

UNREADABLE = "snapshot_unavailable"
OPERATIONS = ["poll", "reconcile"]


def routes(site: Site) -> list[BaseRoute]:
    def at(
        path: str, handler: Callable[[Site, Request], Response], method: str = "GET", *, plain: bool = False
    ) -> Route:
        def bound(request: Request) -> Response:
            return handler(site, request)

        return Route(path, Address({method: bound}, unreadable=UNREADABLE, plain=plain))

    async def livez(_: Request) -> Response:
        # It reads nothing, and so it needs no thread and waits behind no report.
        return _verdict(V1Health("fail" if _is_stopping(site) or _is_silent(site) else "pass"))

    return [
        Route("/livez", Address({"GET": livez}, unreadable=UNREADABLE, plain=True)),
        at("/readyz", _readyz, plain=True),
        at(f"{API_V1}/state", _state),
        at(f"{API_V1}/refresh", _refresh, "POST"),
        # Last, and with everything below it: an identifier may have slashes.
        at(f"{API_V1}/{{identifier:path}}", _issue),
    ]


def _readyz(site: Site, _: Request) -> Response:
    checks: dict[str, Verdict] = dict.fromkeys(("database", "preflight", "workflow"), "fail")
    if not _is_stopping(site):
        checks["workflow"] = "fail" if site.is_broken else "pass"
        with suppress(SortieError, sqlite3.Error), site.looking() as db:
            held = [pause for pause in look(db, issue_id="").schedule.pauses.values() if pause.is_fault]
            live = site.live.now()
            checks["database"] = "fail" if live and live.store_trouble else "pass"
            checks["preflight"] = "fail" if held or _is_silent(site) else "pass"
    status: Verdict = "fail" if "fail" in checks.values() else "pass"
    return _verdict(V1Ready(status, __version__, _uptime(site), checks))


def _state(site: Site, _: Request) -> Response:
    live = _heard(site)
    with site.looking() as db, snapshot(db):
        return json_answer(Present(site, db, live).state())


def _issue(site: Site, request: Request) -> Response:
    live, identifier = _heard(site), str(request.path_params["identifier"])
    with site.looking() as db, snapshot(db):
        issue_id = find_active(db, identifier)
        found = Present(site, db, live, issue_id).issue() if issue_id else None
    if found is None:
        raise Problem(404, "issue_not_found", f'issue identifier "{identifier}" not found in current state')
    return json_answer(found)


def _refresh(site: Site, _: Request) -> Response:
    if _is_stopping(site):
        return json_answer(V1Refresh(False, False, stamp(time.time()), []), 409)
    if site.read_only:
        raise Problem(503, UNREADABLE, "This server is read-only, and no service is connected to it.")
    _heard(site)
    is_new = ask_for_look(site.database)
    return json_answer(V1Refresh(True, not is_new, stamp(time.time()), OPERATIONS), 202)


def _heard(site: Site) -> LiveReport | None:
    """The last report of the service. None if it does not report to this process, so that only the store is
    known."""
    if live := site.live.now():
        return live
    if site.read_only and site.is_served:
        return None
    raise Problem(503, UNREADABLE, "No service reports the state of this store now: it may be out of date.")


def _is_stopping(site: Site) -> bool:
    live = site.live.now()
    return live is not None and live.draining


def _is_silent(site: Site) -> bool:
    """Whether the service that started us has not been heard for too long; it gets as long for its first word."""
    return not site.read_only and site.live.now() is None and not site.is_young


def _uptime(site: Site) -> float:
    """That of the service where there is one: we may have been started later."""
    since = site.started_at
    with suppress(SortieError, ValueError, TypeError):
        if holder := holder_of(site.database):
            since = seconds_of(str(holder.get("since")))
    return max(time.time() - since, 0.0)


def _verdict(said: V1Health | V1Ready) -> Response:
    return json_answer(said, 200 if said.status == "pass" else 503)
