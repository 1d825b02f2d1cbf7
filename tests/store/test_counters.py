"""Counters, histograms and usage: whatever happens, they are what the log says, and survive what it survives."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.schedule import Schedule
from sortie.store import Store
from sortie.store.connect import connect_readonly, migrate
from sortie.store.counters import HISTOGRAMS, Counts, counters, histograms
from sortie.store.queries import events, history
from sortie.store.tables import apply, write

from .counting import Recount
from .sample import PARK, RETRY, claimed, ended, output_of, record, seen, settled, start_python, turn

OUT_OF_TURNS = "the budget of this issue is used up: all of 3 turns used"
RETRIES = st.sampled_from(["error", "continuation", "resume", "limit", "held"])
PARKS = st.sampled_from(["signal", "error", "budget", "operator"])
STATUSES = st.sampled_from(["succeeded", "failed", "timed_out", "stalled", "cancelled"])
AMOUNTS = st.integers(0, 10**9)

# What can happen to an issue, and the fields that it needs beyond those that all events have.
HAPPENINGS = st.one_of(
    st.tuples(st.just(ev.IssueSeen), st.just({})),
    st.tuples(st.just(ev.Claimed), st.fixed_dictionaries({"cause": st.sampled_from(["new", "error"])})),
    st.tuples(st.just(ev.TurnStarted), st.fixed_dictionaries({"turn": st.integers(1, 3)})),
    st.tuples(
        st.just(ev.Charged),
        st.fixed_dictionaries(
            {
                "usage": st.builds(Usage, AMOUNTS, AMOUNTS, AMOUNTS, st.integers(0, 80).map(lambda n: n / 8)),
                "day": st.sampled_from(["2026-03-30", "2026-03-31"]),
                "model": st.sampled_from(["", "opus"]),
            }
        ),
    ),
    st.tuples(
        st.just(ev.RunEnded),
        st.fixed_dictionaries(
            {
                "status": STATUSES,
                "turns": st.integers(0, 2),
                "soft_stop": st.sampled_from(["", "blocked"]),
                "stop": st.sampled_from(["", "budget"]),
                "error": st.just(OUT_OF_TURNS),
                "usage": st.sampled_from([Usage(), Usage(1)]),
                "model": st.sampled_from(["", "opus"]),
            }
        ),
    ),
    st.tuples(st.just(ev.Settled), st.fixed_dictionaries({"retry": RETRIES})),
    st.tuples(st.just(ev.Settled), st.fixed_dictionaries({"park": PARKS})),
    st.tuples(st.just(ev.Parked), st.fixed_dictionaries({"park": PARKS})),
    st.tuples(st.just(ev.Unparked), st.fixed_dictionaries({"retry": st.sampled_from([None, "unparked"])})),
    st.tuples(st.just(ev.Requested), st.just({"retry": "started"})),
    st.tuples(st.just(ev.Skipped), st.fixed_dictionaries({"rule": st.sampled_from(["no-slot", "blocked-by"])})),
    st.tuples(
        st.just(ev.Stopping),
        st.fixed_dictionaries({"cause": st.sampled_from(["terminal", "gone", "inactive", "stalled"])}),
    ),
    st.tuples(st.just(ev.WorkspaceGone), st.just({"key": "w"})),
    st.tuples(
        st.just(ev.EffectDone),
        st.fixed_dictionaries(
            {
                "verb": st.sampled_from(["transition", "comment", "record"]),
                "effect_id": st.sampled_from(["r.dispatch", "r.completion", "r.failure"]),
                "ok": st.booleans(),
                "detail": st.sampled_from(["none needed, the issue is in done", "review"]),
            }
        ),
    ),
)
STEPS = st.tuples(st.sampled_from(["1", "2", "3"]), st.integers(0, 50_000), HAPPENINGS)
_NAMED = (ev.Claimed, ev.Settled, ev.Parked, ev.Unparked, ev.Requested, ev.Skipped)


def event_of(step: tuple[str, int, Any], number: int, open_runs: dict[str, str]) -> ev.AnyEvent:
    issue, at, (kind, fields) = step
    more: dict[str, Any] = {"at": float(at), "issue_id": issue, "run_id": open_runs.get(issue, ""), **fields}
    if kind is ev.Claimed:
        more |= {"run_id": f"run-{number}", "attempt": 1, "agent": "claude-code", "day": "2026-03-30"}
    if kind is ev.IssueSeen:
        more |= {"view": ev.View(id=issue, identifier=issue, title="t", state="todo")}
    if kind is ev.TurnStarted:
        more |= {"day": "2026-03-30"}
    if kind in _NAMED:
        more["identifier"] = f"DEMO-{issue}"
    if kind in (ev.Settled, ev.Unparked):
        more["why"] = "w"
    if isinstance(more.get("retry"), str):
        more["retry"] = ev.Retry(kind=more["retry"], attempt=2, due_at=0.0)
    if isinstance(more.get("park"), str):
        more["park"] = ev.Park(kind=more["park"], reason=OUT_OF_TURNS, fingerprint="f")
    made: ev.AnyEvent = kind(**more)
    return made


def fresh_database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    migrate(database, Path("memory"))
    return database


def flat(found: dict[str, dict[tuple[tuple[str, str], ...], float]]) -> dict[tuple[str, ...], float]:
    return {
        (name, *(value for _, value in labels)): value
        for name, series in found.items()
        for labels, value in series.items()
        if value
    }


def used_in(db: sqlite3.Connection) -> dict[tuple[str, ...], list[Any]]:
    rows = db.execute(
        """SELECT day, agent, model, issue_id, runs, unmeasured, input_tokens, output_tokens, cache_read_tokens,
                  cost_usd FROM usage"""
    )
    return {tuple(row[:4]): [*row[4:6], Usage(*row[6:])] for row in rows}


def check_against_the_log(db: sqlite3.Connection) -> None:
    again = Recount(logged.event for logged in events(db, limit=-1))
    assert flat(counters(db)) == pytest.approx(again.counters)
    assert used_in(db) == again.used
    timed = histograms(db)
    for kind, times in again.durations.items():
        histogram = timed["worker_duration_seconds"][("exit_type", kind),]
        assert dict(histogram.buckets) == {
            **{repr(bound): sum(one <= bound for one in times) for bound in HISTOGRAMS["worker_duration_seconds"]},
            "+Inf": len(times),
        }
        assert histogram.sum == pytest.approx(sum(times))
    waits = timed.get("time_to_start_seconds", {})
    assert [one.buckets[-1][1] for one in waits.values()] == ([len(again.waits)] if again.waits else [])
    assert sum(one.sum for one in waits.values()) == pytest.approx(sum(again.waits))


@settings(deadline=None)
@given(st.lists(STEPS, max_size=80), st.integers(1, 20))
def test_counters_and_usage_are_what_a_fold_over_the_log_says(steps, together):
    schedule, changes, open_runs = Schedule(), [], dict[str, str]()
    for number, step in enumerate(steps):
        event = event_of(step, number, open_runs)
        if isinstance(event, ev.Claimed):
            if event.issue_id in open_runs:
                continue  # the scheduler never does this
            open_runs[event.issue_id] = event.run_id
        if isinstance(event, ev.Settled):
            open_runs.pop(event.issue_id, None)
        changes.append(apply(schedule, event))
    with closing(fresh_database()) as db:
        for start in range(0, len(changes), together):
            write(db, changes[start : start + together])
        check_against_the_log(db)


# Each caller writes whole runs, event by event, and says on standard output which run is on disk.
RUNS_WITHOUT_END = """
import itertools, os, sys
from pathlib import Path
import anyio
from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.store import Store

async def main(path):
    async with Store.open(path, holder={"workflow": "W"}) as store:
        async def caller(number):
            for step in itertools.count(1):
                who = {"issue_id": str(number), "run_id": f"{number}-{step}"}
                name = {"identifier": str(number)}
                await store.append(ev.Claimed(at=step, attempt=1, agent="mock", day="1970-01-01", **who, **name))
                await store.append(ev.TurnStarted(at=step, turn=1, day="1970-01-01", **who))
                used = Usage(3, 2, 1, 0.25)
                await store.append(ev.Charged(at=step, usage=used, day="1970-01-01", model="m", **who))
                await store.append(
                    ev.RunEnded(at=step + 1, status="succeeded", turns=1, usage=used, **who),
                    ev.Settled(at=step + 1, why="w", **who, **name),
                )
                os.write(1, b"run\\n")

        async with anyio.create_task_group() as callers:
            for number in range(4):
                callers.start_soon(caller, number)

anyio.run(main, Path(sys.argv[1]))
"""


def test_a_kill_leaves_no_event_uncounted_and_none_counted_that_is_not_there(path):
    with start_python(RUNS_WITHOUT_END, path) as child:
        for number, _ in enumerate(output_of(child), 1):
            if number == 60:
                child.kill()
        assert child.wait(10) == -9
    with closing(connect_readonly(path)) as db:
        assert counters(db)["worker_exits"][("exit_type", "normal"),] >= 60
        check_against_the_log(db)


async def test_a_run_that_worked_and_told_of_nothing_is_unmeasured_and_not_free(path):
    async with Store.open(path, holder={}) as store:
        await store.append(claimed("1", "r1"), turn(1, "1", "r1"), ended("1", "r1"), settled("1", "r1"))
        await store.append(
            claimed("2", "r2"), turn(1, "2", "r2"), ended("2", "r2", usage=Usage(5)), settled("2", "r2")
        )
        await store.append(claimed("3", "r3"), ended("3", "r3", "failed", turns=0), settled("3", "r3"))
        stopped = ended("4", "r4", "cancelled", turns=0)
        await store.append(claimed("4", "r4"), turn(1, "4", "r4"), stopped, settled("4", "r4"))
        refused = ended("5", "r5", "failed", turns=0, error_kind="agent_auth")
        await store.append(claimed("5", "r5"), turn(1, "5", "r5"), refused, settled("5", "r5"))
    with closing(connect_readonly(path)) as db:
        rows = db.execute("SELECT issue_id, runs, unmeasured FROM usage ORDER BY issue_id").fetchall()
        measured = {row.issue_id: row.measured for row in history(db)}
    assert rows == [("1", 1, 1), ("2", 1, 0), ("3", 1, 0), ("4", 1, 1), ("5", 1, 0)]
    assert measured == {"1": False, "2": True, "3": True, "4": False, "5": True}


async def test_a_run_whose_agent_was_never_asked_is_no_dispatch_that_worked(path):
    async with Store.open(path, holder={}) as store:
        await store.append(claimed("1", "r1"), ended("1", "r1", "failed", turns=0), settled("1", "r1"))
        await store.append(claimed("2", "r2"), turn(1, "2", "r2"), turn(2, "2", "r2"))
    with closing(connect_readonly(path)) as db:
        assert counters(db)["dispatches"] == {(("outcome", "error"),): 1.0, (("outcome", "success"),): 1.0}


async def test_how_long_a_new_issue_waited_counts_from_what_the_source_last_showed_of_it(path):
    async with Store.open(path, holder={}) as store:
        shown = seen("1")
        await store.append(shown, claimed("1", "r1", at=shown.at + 7.0), ended("1", "r1"), settled("1", "r1"))
        await store.append(claimed("1", "again", at=shown.at + 99.0, cause="error"))
        await store.append(claimed("2", "r2"))  # what nobody has shown has not waited
    with closing(connect_readonly(path)) as db:
        waited = histograms(db)["time_to_start_seconds"][()]
    assert (waited.sum, waited.buckets[-1]) == (7.0, ("+Inf", 1.0))
    assert dict(waited.buckets)["8.0"] == 1.0
    assert dict(waited.buckets)["2.0"] == 0.0


async def test_what_is_taken_back_lowers_the_account_and_no_counter(path):
    """A host that knows less at the end than it told on the way."""
    async with Store.open(path, holder={}) as store:
        used: dict[str, Any] = {"at": 1.0, "issue_id": "1", "run_id": "r1", "day": "2026-03-30"}
        await store.append(claimed("1", "r1"), ev.Charged(usage=Usage(10, 0, 0, 1.0), **used))
        await store.append(ev.Charged(usage=Usage(-4, 0, 0, -0.5), **used))
    with closing(connect_readonly(path)) as db:
        assert counters(db)["tokens"][("type", "input"),] == 10.0
        assert db.execute("SELECT sum(input_tokens), total(cost_usd) FROM usage").fetchone() == (6, 0.5)


async def test_what_the_engine_counts_by_itself_is_added_to_what_is_there(path):
    for _ in range(2):
        async with Store.open(path, holder={}) as store:
            counts = Counts()
            counts.add("tracker_requests", 3, operation="fetch_issue", result="error")
            counts.observe("poll_duration_seconds", 0.3)
            counts.observe("poll_duration_seconds", 1000.0)
            await store.add_counts(counts)
    with closing(connect_readonly(path)) as db:
        assert counters(db)["tracker_requests"] == {(("operation", "fetch_issue"), ("result", "error")): 6.0}
        looks = histograms(db)["poll_duration_seconds"][()]
        assert (dict(looks.buckets)["0.4"], looks.buckets[-1], looks.sum) == (2.0, ("+Inf", 4.0), 2000.6)


@pytest.mark.parametrize("amount", [-1.0, 0.0, float("nan")])
def test_a_counter_never_falls(amount):
    counts = Counts()
    counts.add("tokens", amount, type="input")
    assert not counts


async def test_calls_of_tools_are_among_the_counters(path):
    async with Store.open(path, holder={}) as store:
        await store.append(ev.ToolCalled(at=1.0, tool="tracker_api", result="success", ms=1.0))
    with closing(connect_readonly(path)) as db:
        assert counters(db)["tool_calls"] == {(("result", "success"), ("tool", "tracker_api")): 1.0}


# -- a store of an earlier version ------------------------------------------------------------------------------


@pytest.fixture
def earlier(path):
    """One with seven finished runs, and an open one that was charged for; see test_migrate."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(Path(__file__).with_name("earlier_store.sql").read_text())
    return path


def test_an_earlier_store_begins_with_what_its_runs_still_tell(earlier):
    with closing(connect_readonly(earlier)) as db:
        assert flat(counters(db)) == {
            ("tokens", "input"): 101.0,
            ("tokens", "output"): 22.0,
            ("tokens", "cache_read"): 7.0,
            ("cost_usd",): 0.25,
            ("worker_exits", "normal"): 3.0,
            ("worker_exits", "soft_stop"): 1.0,
            ("worker_exits", "error"): 3.0,
            ("dispatches", "success"): 7.0,
            ("agent_runtime_seconds",): 420.0,
            ("tool_calls", "success", "tracker_api"): 1.0,
        }
        durations = histograms(db)["worker_duration_seconds"]
        assert {labels: one.buckets[-1][1] for labels, one in durations.items()} == {
            (("exit_type", "error"),): 3.0,
            (("exit_type", "normal"),): 3.0,
            (("exit_type", "soft_stop"),): 1.0,
        }
        normal = durations[("exit_type", "normal"),]
        assert (normal.sum, dict(normal.buckets)["40.0"], dict(normal.buckets)["80.0"]) == (180.0, 0.0, 3.0)
        used = used_in(db)
    assert used["2026-03-30", "codex", "", "1"] == [0, 0, Usage(100, 20, 7, 0.25)]
    assert used["2026-03-30", "codex", "", "2"] == [2, 2, Usage()]
    assert used["2026-03-30", "codex", "", "4"] == [1, 0, Usage(1, 2)]


async def test_an_earlier_store_goes_on_counting_where_its_runs_left_off(earlier):
    async with Store.open(earlier, holder={}) as store:
        await store.append(ended("1", "r1", model="opus", usage=Usage(100, 20, 7, 0.25)), settled("1", "r1"))
    with closing(connect_readonly(earlier)) as db:
        found = flat(counters(db))
        assert found["worker_exits", "normal"] == 4.0
        assert found["tokens", "input"] == 101.0  # it was charged for before
        assert db.execute("SELECT model FROM run_history WHERE run_id = 'r1'").fetchone() == ("opus",)


def test_broken_charges_and_strange_amounts_do_not_stop_the_migration(earlier):
    with closing(sqlite3.connect(earlier)) as db:
        for text in ("{broken", '{"usage": 7}', '{"usage": {"input": 1.5, "output": "x"}, "day": 3}'):
            db.execute(
                "INSERT INTO events (at, kind, issue_id, run_id, data) VALUES (1.0, 'charge', '1', 'r1', ?)",
                (text,),
            )
        db.commit()
    with closing(connect_readonly(earlier)) as db:
        assert counters(db)["tokens"][("type", "input"),] == 102.0


async def test_a_retry_after_silence_is_one_for_a_stall(path):
    async with Store.open(path, holder={}) as store:
        await store.append(claimed("1", "r1"), ended("1", "r1", "stalled"), settled("1", "r1", retry=RETRY))
        await store.append(claimed("2", "r2"), ended("2", "r2", "failed"), settled("2", "r2", retry=RETRY))
        await store.append(claimed("3", "r3"), ended("3", "r3"), settled("3", "r3", park=PARK))
    with closing(connect_readonly(path)) as db:
        assert counters(db)["retries"] == {(("trigger", "error"),): 1.0, (("trigger", "stall"),): 1.0}
        assert counters(db)["issue_parks"] == {(("reason", "signal"),): 1.0}


def test_the_same_verdict_twice_is_one_run():
    with closing(fresh_database()) as db:
        for event in (claimed(), turn(1), ended(), ended(status="failed"), settled()):
            record(db, event)
        assert counters(db)["worker_exits"] == {(("exit_type", "normal"),): 1.0}
        assert db.execute("SELECT sum(runs) FROM usage").fetchone() == (1,)
