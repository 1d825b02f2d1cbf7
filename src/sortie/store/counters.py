"""Counters that survive restarts: increased in the transaction that writes the event which they count.

What follows from no event is counted in memory by the engine, and added every few seconds. A counter never
decreases. In a store from before there were counters, it starts with what the finished runs show, or at 0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from sqlite3 import Connection

import msgspec
from msgspec import Struct

from ..core import events as ev
from ..core.policy import budget_reason
from ..core.records import Claim

Labels = tuple[tuple[str, str], ...]

# The upper bounds of the buckets, in seconds; one without a bound comes last.
HISTOGRAMS: dict[str, tuple[float, ...]] = {
    "worker_duration_seconds": tuple(10.0 * 2**step for step in range(12)),
    "poll_duration_seconds": tuple(0.1 * 2**step for step in range(10)),
    "time_to_start_seconds": tuple(0.5 * 4**step for step in range(10)),
    # Nothing is observed in it: boards look for it.
    "self_review_verification_duration_seconds": tuple(10.0 * 2**step for step in range(12)),
}
_BOUNDS = {name: (*map(repr, bounds), "+Inf") for name, bounds in HISTOGRAMS.items()}

_ADD = """INSERT INTO counters (name, labels, value) VALUES (?, ?, ?)
          ON CONFLICT (name, labels) DO UPDATE SET value = value + excluded.value"""
# What made a new issue ready is what the source last showed of it: that it is there, active, not blocked any more.
_SHOWN_LAST = "SELECT at FROM events WHERE issue_id = ? AND kind = 'seen' ORDER BY seq DESC LIMIT 1"

_COMMENTS = frozenset({"dispatch", "completion", "failure", "answer"})
_RECONCILED = {"terminal": "cleanup", "inactive": "stop", "gone": "stop"}


class Counts:
    """Amounts on their way to the table, by name and labels."""

    def __init__(self) -> None:
        self._amounts: dict[tuple[str, str], float] = {}

    def __bool__(self) -> bool:
        return bool(self._amounts)

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """What is negative, or no number, is nothing."""
        if amount > 0:
            series = name, _as_json(tuple(sorted(labels.items())))
            self._amounts[series] = self._amounts.get(series, 0.0) + amount

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """One more in a histogram; its buckets hold what is in none before them, and are summed up when read."""
        seconds = max(seconds, 0.0)
        bound = _BOUNDS[name][bisect_left(HISTOGRAMS[name], seconds)]
        self.add(f"{name}_bucket", 1.0, **labels, le=bound)
        self.add(f"{name}_sum", seconds, **labels)

    def join(self, others: Counts) -> None:
        for series, amount in others._amounts.items():
            self._amounts[series] = self._amounts.get(series, 0.0) + amount

    def write(self, db: Connection) -> None:
        """Add them to the table, inside the caller's transaction."""
        if self._amounts:
            db.executemany(_ADD, [(*series, amount) for series, amount in self._amounts.items()])


@lru_cache(maxsize=1024)
def _as_json(labels: Labels) -> str:
    return msgspec.json.encode(dict(labels)).decode()


# -- what events count for --------------------------------------------------------------------------------------


def count(db: Connection, counts: Counts, event: ev.AnyEvent, run: Claim | None) -> None:
    """`run` is the one that the event is about, as it was before it. The event is in the log already."""
    match event:
        case ev.Claimed(cause="new"):
            if shown := db.execute(_SHOWN_LAST, (event.issue_id,)).fetchone():
                counts.observe("time_to_start_seconds", event.at - shown[0])
        case ev.TurnStarted() if run and run.turn == 0:
            counts.add("dispatches", outcome="success")
        case ev.Charged(usage=used):
            counts.add("tokens", used.input, type="input")
            counts.add("tokens", used.output, type="output")
            counts.add("tokens", used.cache_read, type="cache_read")
            counts.add("cost_usd", used.cost_usd)
        case ev.RunEnded() if run and not run.ended:
            _count_end(counts, event, run)
        case ev.Settled():
            if event.retry:
                counts.add("retries", trigger=_trigger(event.retry, run))
            if event.park:
                _count_park(counts, event.park)
        case ev.Parked(park=park):
            _count_park(counts, park)
        case ev.Requested() | ev.Unparked(retry=ev.Retry()):
            counts.add("retries", trigger="operator")
        case ev.Skipped(rule=rule):
            counts.add("candidate_holds", reason=rule)
        case ev.Stopping(cause=cause) if cause in _RECONCILED:
            counts.add("reconciliation_actions", action=_RECONCILED[cause])
        case ev.WorkspaceGone():
            counts.add("reconciliation_actions", action="sweep_cleanup")
        case ev.EffectDone():
            _count_write(counts, event)
        case _:
            pass


def exit_type(ended: ev.RunEnded) -> str:
    if ended.status == "succeeded":
        return "soft_stop" if ended.soft_stop else "normal"
    return "cancelled" if ended.status == "cancelled" else "error"


def _count_end(counts: Counts, ended: ev.RunEnded, run: Claim) -> None:
    kind, seconds = exit_type(ended), max(ended.at - run.claimed_at, 0.0)
    counts.add("worker_exits", exit_type=kind)
    counts.observe("worker_duration_seconds", seconds, exit_type=kind)
    counts.add("agent_runtime_seconds", seconds)
    if run.turn == 0:  # no agent was ever asked anything
        counts.add("dispatches", outcome="success" if ended.status == "succeeded" else kind)
    if ended.stop == "budget":
        counts.add("runs_stopped_by_budget", reason=budget_reason(ended.error))


def _trigger(retry: ev.Retry, run: Claim | None) -> str:
    stalled = run is not None and run.ending is not None and run.ending.status == "stalled"
    return "stall" if stalled and retry.kind == "error" else retry.kind


def _count_park(counts: Counts, park: ev.Park) -> None:
    counts.add("issue_parks", reason=park.kind)
    if park.kind == "budget":
        counts.add("budget_exhaustions", reason=budget_reason(park.reason))


def _count_write(counts: Counts, done: ev.EffectDone) -> None:
    result = "success" if done.ok else "error"
    if done.verb == "transition":
        needless = done.ok and done.detail.startswith("none needed")
        counts.add("handoff_transitions", result="skipped" if needless else result)
    elif done.verb == "comment":
        name = done.effect_id.rpartition(".")[2]
        counts.add("tracker_comments", lifecycle=name if name in _COMMENTS else "other", result=result)


# -- reading ----------------------------------------------------------------------------------------------------


class Histogram(Struct, frozen=True):
    """`buckets` is how many took at most as long as each bound says; the last has all of them."""

    buckets: tuple[tuple[str, float], ...]
    sum: float


def counters(db: Connection) -> dict[str, dict[Labels, float]]:
    """Every counter by its name without prefix and suffix, then by its labels; calls of tools are among them."""
    found: dict[str, dict[Labels, float]] = {}
    for name, labels, value in _rows(db):
        if _histogram_of(name) is None:
            found.setdefault(name, {})[labels] = value
    calls = db.execute("SELECT tool, result, calls FROM tool_calls")
    found["tool_calls"] = {(("result", result), ("tool", tool)): float(number) for tool, result, number in calls}
    return found


def histograms(db: Connection) -> dict[str, dict[Labels, Histogram]]:
    """Every histogram by its name without prefix, then by its labels."""
    buckets: dict[tuple[str, Labels], dict[str, float]] = {}
    sums: dict[tuple[str, Labels], float] = {}
    for row, labels, value in _rows(db):
        name = _histogram_of(row)
        if name is None:
            continue
        series = name, tuple(label for label in labels if label[0] != "le")
        if row.endswith("_sum"):
            sums[series] = value
        else:
            buckets.setdefault(series, {})[dict(labels)["le"]] = value
    found: dict[str, dict[Labels, Histogram]] = {}
    for (name, labels), counted in buckets.items():
        totals = accumulate(counted.get(bound, 0.0) for bound in _BOUNDS[name])
        cumulative = tuple(zip(_BOUNDS[name], totals, strict=True))
        found.setdefault(name, {})[labels] = Histogram(cumulative, sums.get((name, labels), 0.0))
    return found


def _histogram_of(row: str) -> str | None:
    name = row.removesuffix("_bucket").removesuffix("_sum")
    return name if name in HISTOGRAMS else None


def _rows(db: Connection) -> Iterator[tuple[str, Labels, float]]:
    for name, labels, value in db.execute("SELECT name, labels, value FROM counters"):
        yield name, tuple(sorted(msgspec.json.decode(labels, type=dict[str, str]).items())), value
