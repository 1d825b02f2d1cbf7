"""`/health`: the service, its polls, the tracker's rate limit, store, disks, settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ...reports.health import Health
from .. import show
from ..render import page
from ..site import Site
from .parts import Bar, bar

# A look that is later than so many times its interval is late.
LATE_LOOKS = 3.0
LAZY_LOOP = 0.5
FULL_DISK = 0.95


class Check(Struct, frozen=True):
    """One thing at a glance; `verdict` is pass, warn or fail."""

    verdict: str
    title: str
    words: str


def routes(site: Site) -> list[BaseRoute]:
    def health(request: Request) -> Response:
        with site.looking() as db:
            report = site.health(db)
        return page(
            site,
            request,
            "health.html",
            here="health",
            report=report,
            checks=list(_checks(site, report)),
            disks=_disks(report),
            quota=_quota(report),
            lag_plot=_lag(site),
        )

    return [Route("/health", health, methods=["GET"])]


def _checks(site: Site, report: Health) -> Iterator[Check]:
    """What is unknown is never shown as good."""
    if report.service:
        yield Check("pass", "Service", f"runs, pid {report.service.get('pid', '?')}")
    else:
        yield Check("fail", "Service", "not running")
    if looking := report.looking:
        late = looking.at is None or report.now - looking.at > max(site.config.polling.interval * LATE_LOOKS, 10.0)
        words = looking.error or ("late" if late else f"took {show.brief(looking.seconds)}")
        yield Check("fail" if looking.error else "warn" if late else "pass", "Last poll", words)
        lag = looking.loop_lag
        yield Check("warn" if lag > LAZY_LOOP else "pass", "Loop lag", f"{lag * 1000:.0f} ms")
    if site.is_plan or site.workflow:
        broken, title = report.workflow_broken, "Plan" if site.is_plan else "Workflow"
        yield Check("fail" if broken else "pass", title, "broken" if broken else "can be used")
    full = [disk.name for disk in report.disks if disk.total and 1 - disk.free / disk.total > FULL_DISK]
    unseen = [disk.name for disk in report.disks if not disk.total]
    yield _fine_without(full or unseen, "Disks", "nearly full" if full else "not known", "have room")
    failed = report.pending.failed_notifications
    yield _fine_without([str(failed)] if failed else [], "Notifications", "cannot be sent", "none stuck")
    yield _fine_without([pause.agent for pause in report.pauses], "Agents", "paused", "none paused")


def _fine_without(names: list[str], title: str, bad: str, good: str) -> Check:
    return Check("warn", title, f"{bad}: {', '.join(names)}") if names else Check("pass", title, good)


def _disks(report: Health) -> list[tuple[str, str, Bar | None]]:
    """Of each its name, its place, and how full it is, where that is known."""
    return [
        (one.name, one.path, bar(one.name, one.total - one.free, one.total, show.size) if one.total else None)
        for one in report.disks
    ]


def _quota(report: Health) -> list[Bar]:
    figures = report.tracker
    if figures is None:
        return []
    found = [bar("Calls in the last minute", figures.made, figures.per_minute, show.whole)]
    if figures.limit is not None and figures.remaining is not None:
        found.append(bar("Used of its rate limit", figures.limit - figures.remaining, figures.limit, show.whole))
    return found


def _lag(site: Site) -> dict[str, Any] | None:
    """Of the last minutes, as far as a service told us."""
    told = list(site.live.lags)
    if len(told) < 2:
        return None
    return {
        "kind": "line",
        "unit": "ms",
        "x": [round(at, 1) for at, _ in told],
        "series": [{"label": "loop lag", "colour": "blue", "values": [round(lag * 1000, 2) for _, lag in told]}],
        "limit": None,
    }
