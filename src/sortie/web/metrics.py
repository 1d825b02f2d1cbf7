"""`/metrics` for Prometheus: made from the store at each scrape, so that counters survive every restart."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from sqlite3 import Connection
from typing import Any

from msgspec.structs import asdict
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .. import __version__
from ..core.policy import budget_reason
from ..reports.status import Status
from ..store import counters as kept
from ..store.load import snapshot
from .addresses import METRICS
from .api_v1_state import BUDGET_REASONS
from .json_api import STORE_UNAVAILABLE, Address
from .metrics_catalogue import COUNTERS, GAUGES, HISTOGRAMS, PREFIX, Metric
from .site import Site

# The values of each label, in the order of the metric's labels.
Series = tuple[str, ...]


def routes(site: Site) -> list[BaseRoute]:
    def scraped(request: Request) -> Response:
        return exposition(site, request.headers.get("accept", ""))

    return [Route(METRICS, Address({"GET": scraped}, unreadable=STORE_UNAVAILABLE, plain=True))]


def exposition(site: Site, accept: str) -> Response:
    """In the form that was asked for, as far as there is one."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(site))
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # it compares a version that is no number
        encode, content_type = choose_encoder("")
    return Response(encode(registry), headers={"content-type": content_type, "cache-control": "no-store"})


class StoreCollector(Collector):
    """What the library asks for families of metrics; nothing is kept between two scrapes."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def describe(self) -> list[Family]:
        """Nothing, so that nothing is read before somebody scrapes."""
        return []

    def collect(self) -> Iterator[Family]:
        site = self._site
        with site.looking() as db, snapshot(db):
            counted, timed = kept.counters(db), kept.histograms(db)
            status, hosts = site.status(db), _hosts(db)
        for metric in COUNTERS:
            yield _counter_family(metric, _renamed(metric, counted.get(metric.name, {})))
        for metric in HISTOGRAMS:
            yield _histogram_family(metric, timed.get(metric.name, {}))
        values = {**_state(status), "ssh_host_usage": hosts, **_service(site, status)}
        for metric in GAUGES:
            yield _gauge_family(metric, values.get(metric.name, {}))


# -- what is counted ----------------------------------------------------------------------------------------------


def _renamed(metric: Metric, counted: Mapping[kept.Labels, float]) -> dict[Series, float]:
    """With the words that boards know: limits as `token_budget`, rules as `blocked_by`."""
    found: dict[Series, float] = {}
    for labels, value in counted.items():
        named = dict(labels)
        if "reason" in named:
            reason = named["reason"]
            named["reason"] = BUDGET_REASONS.get(reason, reason.replace("-", "_"))
        series = tuple(named.get(label, "") for label in metric.labels)
        found[series] = found.get(series, 0.0) + value
    return found


def _counter_family(metric: Metric, counted: Mapping[Series, float]) -> Family:
    family = CounterMetricFamily(PREFIX + metric.name, metric.help, labels=metric.labels)
    for series, value in {**dict.fromkeys(metric.series(), 0.0), **counted}.items():
        family.add_metric(series, value)
    return family


def _gauge_family(metric: Metric, values: Mapping[Series, float]) -> Family:
    family = GaugeMetricFamily(PREFIX + metric.name, metric.help, labels=metric.labels)
    known = dict.fromkeys(metric.series(), 0.0) if metric.labels else {}
    for series, value in {**known, **values}.items():
        family.add_metric(series, value)
    return family


def _histogram_family(metric: Metric, timed: Mapping[kept.Labels, kept.Histogram]) -> Family:
    family = HistogramMetricFamily(PREFIX + metric.name, metric.help, labels=metric.labels)
    found = {
        tuple(dict(labels)[label] for label in metric.labels): histogram for labels, histogram in timed.items()
    }
    for series in [*found, *(one for one in metric.series() if one not in found)]:
        histogram = found.get(series) or _nothing(metric.name)
        family.add_metric(series, buckets=list(histogram.buckets), sum_value=histogram.sum)
    return family


def _nothing(name: str) -> kept.Histogram:
    return kept.Histogram(tuple((bound, 0.0) for bound in (*map(repr, kept.HISTOGRAMS[name]), "+Inf")), 0.0)


# -- how things stand ---------------------------------------------------------------------------------------------


def _state(status: Status) -> dict[str, dict[Series, float]]:
    waits = [need.since for need in status.needs_person if need.since is not None]
    used_up = Counter(BUDGET_REASONS[budget_reason(one.reason)] for one in status.parked if one.kind == "budget")
    limits = asdict(status.budget.per_day) if status.budget.per_day else {}
    return {
        "sessions_running": _one(len(status.running)),
        "sessions_retrying": _one(len(status.retrying)),
        "slots_available": {} if status.slots is None else _one(max(status.slots - len(status.running), 0)),
        "active_sessions_elapsed_seconds": _one(sum(run.age for run in status.running)),
        "budget_exhausted_issues": _by_label(used_up),
        "waiting_for_person": _by_label(Counter(need.kind for need in status.needs_person)),
        "oldest_waiting_for_person_seconds": _one(max(status.now - min(waits), 0.0) if waits else 0.0),
        "day_spent": _by_label(asdict(status.budget.today)),
        "day_limit": _by_label({unit: limit for unit, limit in limits.items() if limit is not None}),
        "build_info": {(__version__,): 1.0},
    }


def _service(site: Site, status: Status) -> dict[str, dict[Series, float]]:
    """What only the service knows; of one that is not heard, that it is not."""
    live = site.live.now()
    is_up = live is not None or (site.read_only and site.is_served)
    found: dict[str, dict[Series, float]] = {"service_up": _one(is_up)}
    if live is not None:
        found["event_loop_lag_seconds"] = _one(live.loop_lag)
        if live.last_look_at and not live.last_look_error:
            found["last_poll_timestamp_seconds"] = _one(live.last_look_at)
    figures = status.tracker
    if figures and figures.remaining is not None and (figures.resets_at or time.time()) >= status.now:
        found["tracker_calls_remaining"] = _one(figures.remaining)
    return found


def _hosts(db: Connection) -> dict[Series, float]:
    rows = db.execute("SELECT host, count(*) FROM claims WHERE host <> '' GROUP BY host")
    return {(host,): float(number) for host, number in rows}


def _one(value: float) -> dict[Series, float]:
    return {(): float(value)}


def _by_label(values: Mapping[str, Any]) -> dict[Series, float]:
    return {(label,): float(value) for label, value in values.items()}
