"""Whatever happens, in whatever order: the tables are what a plain fold over the same events says."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.policy import Spent
from sortie.core.schedule import Part, Schedule
from sortie.store.connect import migrate
from sortie.store.load import load
from sortie.store.queries import events, history, totals
from sortie.store.tables import apply, write

from .sample import PARK, RETRY, record

ISSUES = st.sampled_from(["1", "2", "3"])
DAYS = st.sampled_from(["2026-03-30", "2026-03-31"])
AMOUNTS = st.integers(0, 10_000)
USAGES = st.builds(Usage, AMOUNTS, AMOUNTS, AMOUNTS, st.floats(0, 50))
STATUSES = st.sampled_from(["succeeded", "failed", "timed_out", "stalled", "cancelled"])
AFTERWARDS = st.sampled_from([{}, {"retry": RETRY}, {"park": PARK}, {"refund": "2026-03-30"}])

# Each step is the name of something that can happen to an issue, and what it needs beyond it.
STEPS = st.one_of(
    st.tuples(st.just("claim"), ISSUES, DAYS),
    st.tuples(st.just("turn"), ISSUES, DAYS),
    st.tuples(st.just("charge"), ISSUES, st.tuples(DAYS, USAGES)),
    st.tuples(st.just("end"), ISSUES, STATUSES),
    st.tuples(st.just("settle"), ISSUES, AFTERWARDS),
    st.tuples(st.just("drop"), ISSUES, st.none()),
    st.tuples(st.just("park"), ISSUES, st.none()),
    st.tuples(st.just("unpark"), ISSUES, st.booleans()),
)


@dataclass
class Plain:
    """The same bookkeeping without SQL."""

    claims: dict[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)
    finished: dict[str, str] = field(default_factory=dict)
    spent: dict[tuple[str, str], Spent] = field(default_factory=dict)

    def charge(self, issue: str, day: str, **amounts: Any) -> None:
        for key in (("issue", issue), ("day", day)):
            self.spent[key] = self.spent.get(key, Spent()).plus(Spent(**amounts))

    def apply(self, event: ev.AnyEvent) -> None:
        issue = event.issue_id
        match event:
            case ev.Claimed():
                self.claims[issue] = event.run_id
                self.waiting.discard(issue)
                self.parked.discard(issue)
                self.charge(issue, event.day, sessions=1)
            case ev.TurnStarted():
                self.charge(issue, event.day, turns=1)
            case ev.Charged():
                self.charge(issue, event.day, tokens=event.usage.total, usd=event.usage.cost_usd)
            case ev.RunEnded() if event.run_id in self.claims.values():
                self.finished.setdefault(event.run_id, event.status)
            case ev.Settled():
                self.claims.pop(issue, None)
                if event.refund:
                    self.charge(issue, event.refund, sessions=-1)
                if event.retry:
                    self.waiting.add(issue)
                if event.park:
                    self.waiting.discard(issue)
                    self.parked.add(issue)
            case ev.RetryDropped():
                self.waiting.discard(issue)
            case ev.Parked():
                self.waiting.discard(issue)
                self.parked.add(issue)
            case ev.Unparked():
                self.parked.discard(issue)
                if event.reset_budget:
                    self.spent.pop(("issue", issue), None)


def event_of(step: tuple[str, str, Any], number: int, open_runs: dict[str, str]) -> ev.AnyEvent:
    what, issue, detail = step
    common: dict[str, Any] = {
        "at": float(number),
        "issue_id": issue,
        "run_id": open_runs.get(issue, f"never-{number}"),
    }
    match what:
        case "claim":
            new: dict[str, Any] = {**common, "run_id": f"run-{number}"}
            return ev.Claimed(**new, identifier=issue, attempt=1, day=detail)
        case "turn":
            return ev.TurnStarted(**common, turn=number, day=detail)
        case "charge":
            return ev.Charged(**common, day=detail[0], usage=detail[1])
        case "end":
            return ev.RunEnded(**common, status=detail, turns=1)
        case "settle":
            return ev.Settled(**common, identifier=issue, why="w", **detail)
        case "drop":
            return ev.RetryDropped(**common, identifier=issue, why="w")
        case "park":
            return ev.Parked(**common, identifier=issue, park=PARK)
        case "unpark":
            return ev.Unparked(**common, identifier=issue, why="w", reset_budget=detail)
    raise AssertionError(what)


def fresh_database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    migrate(database, Path("memory"))
    return database


def spent_in(database: sqlite3.Connection) -> dict[tuple[str, str], Spent]:
    rows = database.execute("SELECT scope, key, sessions, turns, tokens, usd FROM budget")
    return {(scope, key): Spent(*amounts) for scope, key, *amounts in rows}


def without_nothing(spent: dict[tuple[str, str], Spent]) -> dict[tuple[str, str], Spent]:
    return {key: amount for key, amount in spent.items() if amount != Spent()}


def as_sent(schedule: Schedule) -> dict[str, bytes]:
    """Each part as another process is told of it."""
    return {part: msgspec.json.encode(getattr(schedule, part), order="sorted") for part in get_args(Part)}


@settings(deadline=None)
@given(st.lists(STEPS, max_size=60), st.integers(1, 60))
def test_tables_are_the_fold_of_the_events_and_can_be_rebuilt_from_them(steps, together):
    with closing(fresh_database()) as database, closing(fresh_database()) as rebuilt:
        plain = Plain()
        for number, step in enumerate(steps):
            event = event_of(step, number, plain.claims)
            if isinstance(event, ev.Claimed) and event.issue_id in plain.claims:
                continue  # the scheduler never does this; that the store refuses it has a test of its own
            record(database, event)
            plain.apply(event)

        now = load(database).schedule
        assert {issue_id: claim.run_id for issue_id, claim in now.running.items()} == plain.claims
        assert now.waiting.keys() == plain.waiting
        assert now.parked.keys() == plain.parked
        assert without_nothing(spent_in(database)) == without_nothing(plain.spent)
        finished = database.execute("SELECT run_id, status FROM run_history")
        assert dict(finished.fetchall()) == plain.finished

        schedule = Schedule()
        changes = [apply(schedule, logged.event) for logged in events(database)]
        for start in range(0, len(changes), together):
            write(rebuilt, changes[start : start + together])
        assert schedule == now
        assert load(rebuilt).schedule == now
        # SQLite has numbers for true and false, which are equal to them, and which no other process takes for them.
        assert as_sent(schedule) == as_sent(now)
        assert history(rebuilt) == history(database)
        assert totals(rebuilt) == totals(database)
        assert totals(database).runs == dict(sorted(Counter(plain.finished.values()).items()))
