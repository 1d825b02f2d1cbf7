"""Where a run executes and who pays for it: hosts, agents and accounts in a decision."""

from __future__ import annotations

import pytest

from sortie.core import events as ev
from sortie.core.decide import Tick
from sortie.core.policy import Limits, Spent
from sortie.core.records import Pause
from sortie.core.schedule import Schedule

from .facts import NOW, policy, schedule, view
from .test_decide import TICK, held, starts, told

# -- hosts ----------------------------------------------------------------------------------------------------


def on(*places: tuple[str, int | None]) -> Tick:
    hosts = tuple(ev.Place(host=host, free=free) for host, free in places)
    return Tick(now=NOW, candidates_known=True, places=hosts)


def hosts_of(made: Schedule, tick: Tick) -> list[str]:
    return [start.host for start in starts(made, tick)]


def test_nobody_starts_beyond_what_the_hosts_take():
    made = schedule(*(view(str(n)) for n in range(5)))
    assert told(made, on(("a", 1), ("b", 2)))[3:] == ["skip 3: no-host", "skip 4: no-host"]
    assert sorted(hosts_of(made, on(("a", 1), ("b", 2)))) == ["a", "b", "b"]


def test_the_host_with_the_most_room_is_next_and_the_names_settle_ties():
    made = schedule(*(view(str(n)) for n in range(4)))
    assert hosts_of(made, on(("b", 1), ("a", 1), ("c", 2))) == ["c", "a", "b", "c"]


def test_a_host_that_takes_any_number_comes_first():
    made = schedule(*(view(str(n)) for n in range(3)))
    assert hosts_of(made, on(("a", 9), ("b", None))) == ["b", "b", "b"]


@pytest.mark.parametrize("places", [(), (("a", 0),), (("a", -1), ("b", 0))])
def test_where_no_host_takes_a_run_nothing_starts(places):
    assert told(schedule(view("1")), on(*places)) == ["skip 1: no-host"]


def test_without_hosts_to_choose_from_the_claim_names_none():
    assert hosts_of(schedule(view("1")), TICK) == [""]


def test_slots_and_states_count_before_hosts():
    made = schedule(view("1"), view("2"), rules=policy(max_concurrent=1))
    assert told(made, on(("a", 5))) == ["start 1: new", "skip 2: no-slot"]


# -- agents of their own --------------------------------------------------------------------------------------


def test_a_claim_names_the_agent_of_its_issue_and_who_limits_it():
    made = schedule(
        view("1"), view("2", agent="codex"), view("3", provider="command/a"), rules=policy(provider="command")
    )
    named = [(start.agent, start.provider) for start in starts(made)]
    assert named == [("command", ""), ("codex", ""), ("command", "command/a")]


def test_a_limit_holds_up_one_agent_kind_and_one_account_alone():
    made = schedule(
        view("1"),
        view("2", agent="codex"),
        view("3", agent="codex", provider="codex/a"),
        view("4", agent="codex", provider="codex/b"),
    )
    made.pauses["codex/a"] = Pause(until=NOW + 60, error_kind="rate_limited", detail="")
    assert told(made) == ["start 1: new", "start 2: new", "skip 3: provider-paused", "start 4: new"]


def test_a_fault_of_one_agent_is_tried_by_a_run_of_that_agent():
    made = schedule(view("1"), view("2", agent="codex"), view("3", agent="codex"))
    made.pauses["codex"] = held(NOW)
    assert told(made) == ["start 1: new", "start 2: new", "skip 3: agent-held"]


def test_limits_of_an_issue_take_the_place_of_those_of_the_workflow():
    """Each by itself: an issue that names one bound is not without the others."""
    made = schedule(
        view("1", limits=Limits(sessions=1)),
        view("2"),
        view("3", limits=Limits(sessions=4)),
        view("4", limits=Limits(turns=9)),
        rules=policy(per_issue=Limits(sessions=2)),
    )
    for issue_id in "1234":
        made.spent[issue_id] = Spent(sessions=int(issue_id))
    assert told(made) == ["park 1", "park 2", "start 3: new", "park 4"]
