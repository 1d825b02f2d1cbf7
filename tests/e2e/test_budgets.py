"""How much may be spent: turns, sessions, tokens, days, and a provider that says stop."""

from __future__ import annotations

from sortie.core import events as ev

from .shell import BLOCKED, says

UNLIMITED = {"sessions": "unlimited", "turns": "unlimited", "tokens": "unlimited", "usd": "unlimited"}


def test_a_silent_agent_goes_on_turn_by_turn_and_run_by_run_until_its_budget_is_spent(project):
    """max_turns ends a run, a continuation follows, the issue's sessions end it all: parked, not looped."""
    project.workflow({"agent": {"max_turns": 2}, "budget": {"per_issue": {"sessions": 2}}})
    project.add("1", says("$SORTIE_ATTEMPT.$SORTIE_TURN"))
    assert project.run() == 3
    assert project.diary() == ["1.1", "1.2", "2.1", "2.2"]
    assert [run.status for run in project.runs("1")] == ["succeeded"] * 2
    kind, reason = project.parked()["1"]
    assert kind == "budget"
    assert "all of 2 sessions used" in reason


def test_the_turns_of_an_issue_are_counted_over_its_runs(project):
    """The turn beyond the limit does not start, and the issue is parked with that reason."""
    project.workflow({"agent": {"max_turns": 2}, "budget": {"per_issue": {"sessions": 9, "turns": 3}}})
    project.add("1", says("$SORTIE_ATTEMPT.$SORTIE_TURN"))
    project.run()
    assert project.diary() == ["1.1", "1.2", "2.1"]
    assert project.parked()["1"][0] == "budget"
    assert "all of 3 turns used" in project.parked()["1"][1]


def test_unparking_an_issue_gives_it_a_new_budget(project):
    """By hand, and only by hand: a restart or a comment does not."""
    project.add("1", f"{says('tried')}; exit 1")
    project.run()
    project.edit("1", description="try again")
    project.run()
    assert project.diary() == ["tried"]
    assert project.sortie("unpark", "T-1").returncode == 0
    project.run()
    assert project.diary() == ["tried", "tried"]


def test_a_higher_limit_in_the_workflow_frees_what_was_parked_for_its_budget(project):
    """Somebody who raises the limit wants it used."""
    project.add("1", f"{says('$SORTIE_ATTEMPT')}; [ $SORTIE_ATTEMPT = 1 ] && exit 1; {BLOCKED}")
    project.run()
    project.workflow({"budget": {"per_issue": {"sessions": 2}}})
    project.run()
    assert project.diary() == ["1", "2"]
    assert project.parked()["1"][0] == "signal"


def test_the_day_has_a_budget_of_its_own(project):
    """Beyond it nothing starts; nobody is parked, because tomorrow is another day."""
    project.workflow({"budget": {"per_day": {"sessions": 2}}, "agent": {"max_concurrent_agents": 1}})
    for number in range(4):
        project.add(str(number), f"{says('$SORTIE_ISSUE_ID')}; {BLOCKED}", priority=number)
    assert project.run() == 3
    assert project.run() == 3
    assert project.diary() == ["0", "1"]
    assert set(project.parked()) == {"0", "1"}
    assert project.schedule().skips["3"][0] == "day-budget"
    assert "budget of the day" in project.sortie("why", "T-3").stdout


def test_tokens_are_charged_as_they_are_used_and_stop_the_next_turn(project):
    """A turn may end above the limit, but none starts there; history and status tell the amounts."""
    turn = {"input_tokens": 100, "output_tokens": 50, "cost_usd": 0.25}
    project.workflow(
        {
            "agent": {"kind": "mock", "max_turns": 5},
            "mock": {"turns": [turn]},
            "budget": {"per_issue": {**UNLIMITED, "tokens": 200}},
        }
    )
    project.add("1")
    project.run()
    run = project.only_run("1")
    assert (run.turns, run.tokens.total, run.cost_usd) == (2, 300, 0.5)
    assert run.status == "cancelled"
    assert project.parked()["1"][0] == "budget"
    assert "all of 200 tokens used" in project.parked()["1"][1]


def test_money_is_limited_the_same_way(project):
    """With the rates of the workflow where the agent does not tell the cost."""
    project.workflow(
        {
            "agent": {"kind": "mock", "max_turns": 5},
            "mock": {"turns": [{"input_tokens": 1_000_000}]},
            "token_rates": {"mock": {"input_per_mtok": 2.0}},
            "budget": {"per_issue": {**UNLIMITED, "usd": 3.0}},
        }
    )
    project.add("1")
    project.run()
    assert (project.only_run("1").turns, project.only_run("1").cost_usd) == (2, 4.0)
    assert "all of $3.00 used" in project.parked()["1"][1]


def test_a_providers_limit_pauses_the_provider_and_charges_nothing(project):
    """No session and no attempt is spent, nobody else starts, and everything waits for the reset."""
    project.workflow(
        {
            "agent": {"kind": "mock", "max_concurrent_agents": 1},
            "mock": {"turns": [{"outcome": "rate_limited", "reset_seconds": 600, "reason": "limit until noon"}]},
        }
    )
    project.add("1", priority=1)
    project.add("2", priority=2)
    service = project.start()
    service.until(lambda: project.schedule().skips.get("2", ("",))[0] == "provider-paused")
    service.stop()
    schedule = project.schedule()
    assert schedule.spent["1"].sessions == 0
    assert [(key, item.retry.kind, item.retry.failures) for key, item in schedule.waiting.items()] == [
        ("1", "limit", 0)
    ]
    assert "2" not in {claim.issue_id for claim in project.events(ev.Claimed)}
    assert [*schedule.pauses] == ["mock"]
    assert "limit until noon" in project.sortie("why", "T-1").stdout


def test_a_completed_turn_resets_the_count_of_failures(project):
    """The back-off begins anew after progress."""
    project.workflow({"agent": {"max_turns": 2}, "budget": {"per_issue": {"sessions": 4}}})
    project.add("1", "[ $SORTIE_ATTEMPT = 3 ] && [ $SORTIE_TURN = 1 ] && exit 0; exit 1")
    project.run()
    failures = [settled.retry.failures for settled in project.events(ev.Settled, "1") if settled.retry]
    assert failures == [1, 2, 1, 2]
