"""What was used, by day, issue, agent and model: gaps filled, the rest summed, nothing unmeasured called free."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Any

import pytest

from sortie.core import events as ev
from sortie.core.model import Limits, Usage
from sortie.core.policy import day_of
from sortie.reports.usage import MOST_DAYS, Amount, usage_of_issue, usage_report

from .scene import NOW, steps

DAY = 86_400.0
TODAY = day_of(NOW)
NOTHING = Usage()


def ran(
    issue: str, days_ago: float, *, usage: Usage = NOTHING, agent: str = "codex", model: str = "m"
) -> list[ev.AnyEvent]:
    at = NOW - days_ago * DAY
    about: Any = {"issue_id": issue, "run_id": f"{issue}-{days_ago}-{model}"}
    charge = [ev.Charged(at=at, usage=usage, day=day_of(at), model=model, **about)] if usage != NOTHING else []
    return [
        ev.Claimed(at=at, identifier=f"A-{issue}", attempt=1, agent=agent, day=day_of(at), **about),
        ev.TurnStarted(at=at, turn=1, day=day_of(at), **about),
        *charge,
        ev.RunEnded(at=at, status="succeeded", turns=1, usage=usage, model=model, **about),
        ev.Settled(at=at, identifier=f"A-{issue}", why="done", **about),
    ]


@pytest.fixture
def db(filled):
    return filled(
        [
            *ran("1", 0, usage=Usage(100, 10, 60, 1.0)),
            *ran("1", 2, usage=Usage(50, 5, 0, 4.0), model="n"),
            *ran("2", 2, usage=Usage(30, 3, 0, 3.0)),
            *ran("3", 2, usage=Usage(20, 2, 0, 2.0), agent="other"),
            *ran("4", 2),
            *ran("5", 40, usage=Usage(1, 1, 0, 99.0)),
        ]
    )


def test_every_day_is_there_the_oldest_first(db):
    report = usage_report(db, today=TODAY, days=4)
    assert [(day.day, day.used.runs, day.used.cost_usd) for day in report.days] == [
        (day_of(NOW - 3 * DAY), 0, 0.0),
        (day_of(NOW - 2 * DAY), 4, 9.0),
        (day_of(NOW - DAY), 0, 0.0),
        (TODAY, 1, 1.0),
    ]
    assert report.total == Amount(5, 1, 200, 20, 60, 10.0)


def test_a_run_that_told_nothing_is_a_number_of_its_own(db):
    day = usage_report(db, today=TODAY, days=4).days[1].used
    assert (day.runs, day.unmeasured) == (4, 1)


def test_those_that_cost_most_are_named_and_the_rest_is_summed(db):
    report = usage_report(db, today=TODAY, days=4, top=2)
    assert [(issue.identifier, issue.used.cost_usd) for issue in report.issues] == [("A-1", 5.0), ("A-2", 3.0)]
    assert (report.other_count, report.other_issues) == (2, Amount(2, 1, 20, 2, 0, 2.0))


def test_agents_and_models_stand_apart(db):
    models = usage_report(db, today=TODAY, days=4).models
    assert {(one.agent, one.model): one.used.cost_usd for one in models} == {
        ("codex", "n"): 4.0,
        ("codex", "m"): 4.0,
        ("other", "m"): 2.0,
    }


def test_what_came_from_a_cache_is_not_new(db):
    used = usage_of_issue(db, "1")
    assert (used.total_tokens, used.new_tokens) == (165, 105)


def test_today_is_held_against_the_limit(db):
    report = usage_report(db, today=TODAY, per_day=Limits(usd=50.0))
    assert (report.today.usd, report.today.tokens, report.per_day) == (1.0, 110, Limits(usd=50.0))


@pytest.mark.parametrize(("days", "told"), [(0, 1), (-5, 1), (10**9, MOST_DAYS)])
def test_a_time_nobody_means_is_brought_within_bounds(db, days, told):
    assert len(usage_report(db, today=TODAY, days=days).days) == told


def test_a_store_without_runs_used_nothing(filled):
    report = usage_report(filled([]), today=TODAY, days=2)
    assert (report.total, report.issues, report.models, report.other_count) == (Amount(), [], [], 0)


def test_a_few_days_cost_no_more_of_a_long_history(filled, tmp_path):
    def cost() -> int:
        return steps(tmp_path / "sortie.db", lambda db: usage_report(db, today=TODAY, days=5))

    filled(event for number in range(5) for event in ran(str(number), number, usage=Usage(1, 1)))
    few = cost()
    filled(event for number in range(300) for event in ran(str(number), 10 + number, usage=Usage(1, 1)))
    assert cost() < few * 1.2


def test_of_very_many_issues_only_those_that_are_named_leave_the_database(filled):
    def rows_of(db: Connection) -> int:
        rows: list[tuple[Any, ...]] = []

        def kept(_: object, row: tuple[Any, ...]) -> tuple[Any, ...]:
            rows.append(row)
            return row

        db.row_factory = kept
        usage_report(db, today=TODAY, days=5, top=3)
        return len(rows)

    few = rows_of(filled(event for number in range(5) for event in ran(str(number), 0, usage=Usage(1, 1))))
    more = (event for number in range(5, 300) for event in ran(str(number), 0, usage=Usage(1, 1)))
    assert rows_of(filled(more)) == few
