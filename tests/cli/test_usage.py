"""`sortie usage`, and `history` filtered and sorted: on a store alone, as people and programs see it."""

from __future__ import annotations

import time

import pytest
from bench.large_store import Large, make_large_store

from .scene import ask


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("usage") / "sortie.db"
    make_large_store(path, Large(runs=80, issues=30, running=1, waiting=1, parked=1, days=10, now=time.time()))
    return str(path)


def test_usage_tells_people_days_issues_agents_and_what_was_not_measured(store, capsys):
    said = ask(capsys, "usage", store, "--days", "30")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("today (")
    assert [line.split()[0] for line in lines if line.endswith("unmeasured")] == ["day", "issue", "agent"]
    assert "10 others" in said.out
    assert lines[-1].endswith("and 2 runs without usage data")


def test_usage_tells_programs_the_same(store, capsys):
    told = ask(capsys, "usage", store, "--days", "30", "--json").json()
    assert len(told["days"]) == 30
    assert (told["total"]["runs"], told["total"]["unmeasured"]) == (80, 2)
    assert sum(day["used"]["runs"] for day in told["days"]) == 80


def test_usage_of_a_time_in_which_nothing_ran_says_so(tmp_path, capsys):
    path = tmp_path / "sortie.db"
    make_large_store(path, Large(runs=0, issues=1, running=0, waiting=0, parked=0, now=time.time()))
    assert "Nothing was used from" in ask(capsys, "usage", str(path)).out


@pytest.mark.parametrize("days", ["0", "367", "x"])
def test_a_time_nobody_means_is_refused(store, capsys, days):
    assert ask(capsys, "usage", store, "--days", days).code == 2


def test_history_is_filtered_and_sorted(store, capsys):
    rows = ask(capsys, "history", "-w", store, "--agent", "codex", "--status", "failed", "--json").json()
    assert rows
    assert {(row["agent"], row["status"], row["model"]) for row in rows} == {("codex", "failed", "gpt-5-codex")}
    costs = [row["cost_usd"] for row in ask(capsys, "history", "-w", store, "--sort", "cost", "--json").json()]
    assert costs == sorted(costs, reverse=True)
    assert len(costs) == 20


def test_history_of_what_never_happened_says_so(store, capsys):
    assert ask(capsys, "history", "-w", store, "--status", "stalled").out == "No run matches.\n"
