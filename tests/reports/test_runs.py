"""Runs chosen, sorted and paged: each once and in order; and all that is on record of one."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.reports.run_detail import MOST_EVENTS, RunDetail, run_detail
from sortie.reports.runs import FURTHEST, LARGEST_PAGE, SORTS, Choice, chosen_runs, run_row, runs_page
from sortie.store.connect import connect_readonly

from .scene import NOW, SECRET, hidden, steps

KEYS = {"cost": "cost_usd", "tokens": "total_tokens", "turns": "turns", "seconds": "seconds"}


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sort", SORTS)
def test_the_pages_together_are_all_runs_in_order(many, sort, descending):
    told, page = [], 1
    while True:
        found = runs_page(many, hide=hidden, sort=sort, descending=descending, page=page, size=110)
        told += found.rows
        assert found.total == 600
        if not found.has_more:
            break
        page += 1
    assert page == 6
    everything = [run_row(row, hidden) for row in chosen_runs(many, Choice(), limit=1000)]
    assert {row.run_id for row in told} == {row.run_id for row in everything}
    if sort == "ended":
        assert told == (everything if descending else everything[::-1])
    else:
        values = [getattr(row, KEYS[sort]) for row in told]
        assert values == sorted(values, reverse=descending)


@pytest.mark.parametrize(
    ("chosen", "field", "value"),
    [
        ({"status": "failed"}, "status", "failed"),
        ({"agent": "codex"}, "agent", "codex"),
        ({"model": "claude-opus-4-1"}, "model", "claude-opus-4-1"),
        ({"issue": "10030"}, "issue_id", "10030"),
    ],
)
def test_only_those_that_were_asked_for(many, chosen, field, value):
    found = runs_page(many, hide=hidden, size=LARGEST_PAGE, **chosen)
    everything = [run_row(row, hidden) for row in chosen_runs(many, Choice(), limit=1000)]
    assert found.rows == [row for row in everything if getattr(row, field) == value][:LARGEST_PAGE]
    assert 0 < len(found.rows) == found.total


def test_a_text_is_looked_for_as_it_stands_and_nobody_counts(many):
    found = runs_page(many, hide=hidden, text="PLEASE look", size=500)
    assert found.total is None
    assert {row.reason for row in found.rows} == {"wrote the tests, please look"}
    assert runs_page(many, hide=hidden, text="%").rows == runs_page(many, hide=hidden, text="_").rows == []


def test_a_last_page_that_is_full_has_no_further_one(many):
    assert runs_page(many, hide=hidden, page=5, size=100).has_more
    assert not runs_page(many, hide=hidden, page=6, size=100).has_more


def test_pages_and_sizes_that_nobody_has_are_no_trouble(many):
    assert runs_page(many, hide=hidden, page=10**30, size=10**30).rows == []
    assert len(runs_page(many, hide=hidden, page=-5, size=-5).rows) == 1


def test_pages_end_where_they_are_said_to_and_none_is_told_twice(many):
    with closing(sqlite3.connect(":memory:")) as db:
        many.backup(db)
        columns = [row[1] for row in db.execute("PRAGMA table_info(run_history)")]
        names = ", ".join(name for name in columns if name not in ("id", "run_id"))
        db.execute(
            f"""WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {FURTHEST})
                INSERT INTO run_history (run_id, {names})
                SELECT 'many-' || n, {names} FROM numbers, (SELECT {names} FROM run_history LIMIT 1)"""
        )
        last = FURTHEST // 50
        pages = [runs_page(db, hide=hidden, page=page) for page in (last - 1, last, last + 1, 10**30)]
        sorted_or_sought = [runs_page(db, hide=hidden, sort="cost"), runs_page(db, hide=hidden, text="look")]
        of_one = runs_page(db, hide=hidden, sort="cost", issue="10030")
    assert [(len(one.rows), one.has_more, one.is_cut) for one in pages] == [
        (50, True, False),
        (50, False, True),
        *[(0, False, True)] * 2,
    ]
    assert [one.newest_only for one in (*sorted_or_sought, *pages[:2], of_one)] == [True, True, False, False, False]
    few = [runs_page(many, hide=hidden, page=page) for page in (12, 13, last, last + 1)]
    assert not runs_page(many, hide=hidden, sort="cost").newest_only
    assert [len(one.rows) for one in few] == [50, 0, 0, 0]
    assert not any(one.has_more or one.is_cut for one in few)


def test_the_newest_runs_alone_are_sorted_where_there_are_very_many():
    where, _ = Choice(sort="cost").where
    assert str(FURTHEST) in where
    assert Choice(sort="cost", issue="1").where[0] == "WHERE issue_id = ?"


def test_a_page_of_the_newest_costs_no_more_of_many(stores):
    few, many = (steps(path, lambda db: chosen_runs(db, Choice(), limit=20)) for path in stores)
    assert many < few * 1.5


def test_a_run_that_told_nothing_of_what_it_used_is_not_free(many):
    rows = runs_page(many, hide=hidden, size=500).rows
    unmeasured = [row for row in rows if not row.measured]
    assert unmeasured
    assert all(row.turns and not row.total_tokens for row in unmeasured)


# -- one run ------------------------------------------------------------------------------------------------------


def of_run(kind: type[ev.AnyEvent], after: float, **fields: object) -> ev.AnyEvent:
    return kind(at=NOW + after, issue_id="1", run_id="r1", **fields)


BEGUN = [
    of_run(ev.Claimed, 0, identifier="A-1", attempt=2, cause="error", agent="codex", host="h1"),
    of_run(ev.WorkspaceMade, 1, identifier="A-1", key="A-1", path="/w/A-1"),
    of_run(ev.TurnStarted, 2, turn=1, day="2026-09-21"),
    of_run(
        ev.ToolCalled, 3, tool="tracker_api", result="error", ms=5.0, error=SECRET, operation="move", target="A-2"
    ),
    of_run(ev.Charged, 4, usage=Usage(10, 5, 2, 0.5), day="2026-09-21", model="m-0"),
    of_run(ev.TurnEnded, 5, turn=1),
    of_run(ev.TurnStarted, 6, turn=2, day="2026-09-21"),
]
OVER = [
    of_run(ev.Noted, 7, level="warning", message="odd", detail=SECRET),
    of_run(ev.EffectPlanned, 8, effect_id="e1", verb="comment", argument=f"done {SECRET}"),
    of_run(ev.EffectPlanned, 8, effect_id="e2", verb="transition", argument="In Review"),
    of_run(ev.RunEnded, 9, status="succeeded", turns=2, usage=Usage(20, 9, 2, 0.75), reason="look", model="m-1"),
    of_run(ev.EffectDone, 10, effect_id="e1", verb="comment", ok=False, detail="refused"),
]


def test_a_run_that_goes_on_is_told_as_far_as_it_is(filled):
    found = run_detail(filled(BEGUN), "r1", hide=hidden)
    assert isinstance(found, RunDetail)
    assert (found.row, found.ended_at, found.workspace, found.host) == (None, None, "/w/A-1", "h1")
    assert [(turn.turn, turn.ended_at) for turn in found.turns] == [(1, NOW + 5), (2, None)]
    assert (found.usage, found.attempt, found.cause) == (Usage(10, 5, 2, 0.5), 2, "error")
    assert found.model == "m-0"


def test_a_finished_run_is_told_whole_and_without_secrets(filled):
    found = run_detail(filled([*BEGUN, *OVER]), "r1", hide=hidden)
    assert found is not None
    assert found.row is not None
    assert (found.row.model, found.ended_at, found.usage.cost_usd) == ("m-1", NOW + 9, 0.75)
    assert [(effect.effect_id, effect.state, effect.argument) for effect in found.effects] == [
        ("e1", "failed", "done [redacted]"),
        ("e2", "planned", "In Review"),
    ]
    assert [(call.tool, call.error, call.target) for call in found.tool_calls] == [
        ("tracker_api", "[redacted]", "A-2")
    ]
    assert [note.text for note in found.notes] == ["odd: [redacted]"]


TALKATIVE = [
    *BEGUN[:3],
    of_run(ev.Noted, 2, level="info", message="the first one"),
    *(of_run(ev.Charged, 3, usage=Usage(1, 1, 0, 0.01), day="2026-09-21") for _ in range(MOST_EVENTS + 1000)),
    *BEGUN[5:],
]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_run_of_very_many_events_is_told_by_its_newest_and_costs_what_it_cost(filled, is_over):
    cost = Usage(6000, 6000, 0, 60.0)
    over = [OVER[0], of_run(ev.RunEnded, 9, status="succeeded", turns=2, usage=cost, model="m-1")]
    found = run_detail(filled([*TALKATIVE, *(over if is_over else ())]), "r1", hide=hidden)
    assert found is not None
    assert found.is_cut
    assert (found.identifier, found.attempt, found.host, found.started_at) == ("A-1", 2, "h1", NOW)
    assert found.usage is not None
    assert found.usage.total == cost.total
    assert found.usage.cost_usd == pytest.approx(cost.cost_usd)
    assert [(turn.turn, turn.ended_at) for turn in found.turns] == [(1, NOW + 5), (2, None)]
    assert (found.workspace, found.ended_at) == ("/w/A-1", NOW + 9 if is_over else None)
    assert [note.text for note in found.notes] == (["odd: [redacted]"] if is_over else [])


def test_a_run_of_as_many_events_as_are_read_is_whole(filled):
    notes = (of_run(ev.Noted, 1, level="info", message="one") for _ in range(MOST_EVENTS - 1))
    found = run_detail(filled([BEGUN[0], *notes]), "r1", hide=hidden)
    assert found is not None
    assert (found.is_cut, len(found.notes)) == (False, MOST_EVENTS - 1)


def test_a_run_nobody_knows_is_none(filled):
    assert run_detail(filled(BEGUN), "r2", hide=hidden) is None


def test_a_run_costs_no_more_among_many(stores):
    few, many = (steps(path, lambda db: run_detail(db, "20260101T000000-000010", hide=hidden)) for path in stores)
    assert many < few * 1.5
    with closing(connect_readonly(stores[1])) as db:
        found = run_detail(db, "20260101T000000-000010", hide=hidden)
        assert found is not None
        assert found.turns
