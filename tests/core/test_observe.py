"""What a look changes: every difference and nothing else, whether the source tells what changed or not."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.model import AgentChoice, Blocker, Comment, Issue, Limits
from sortie.core.observe import Look, fingerprint, held_elsewhere, observe, outdates, view_of
from sortie.core.policy import Policy
from sortie.core.schedule import Schedule

from .chance import POLICIES, STORIES, Step, happen
from .facts import NOW, POLICY, parked, policy, running, schedule, view, waiting
from .laws import check_observed
from .simulation import Simulation


def issue(issue_id: str = "1", **more: Any) -> Issue:
    return Issue(id=issue_id, **{"identifier": f"D-{issue_id}", "title": "Mend it", "state": "Todo", **more})


def look(*issues: Issue, changed: set[str] | None = None, **more: Any) -> Look:
    told = None if changed is None else frozenset(changed)
    return Look(issues={one.id: one for one in issues}, changed=told, **more)


def seen(made: Schedule, found: Look, touched: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    return [(ev.kind_of(event), event.issue_id) for event in observe(made, found, NOW, touched)]


@settings(max_examples=60, deadline=None)
@given(POLICIES, STORIES)
def test_a_source_that_tells_what_changed_leads_to_the_same_schedule(rules: Policy, story: list[Step]) -> None:
    """At every look of the story; laws.py compares the two."""
    with closing(Simulation(rules, "In Progress", incremental=True)) as sim:
        sim.open_issues(6)
        happen(sim, story, [rules, replace(rules, max_concurrent=1)])


def test_only_differences_are_told():
    made = schedule(view("1"), view("2"), view("3"))
    found = look(issue("1"), issue("2", title="Mend it all"), issue("4"))
    assert seen(made, found) == [("seen", "2"), ("seen", "4"), ("left", "3")]
    for event in observe(made, found, NOW):
        made.apply(event)
    assert seen(made, found) == []


def test_where_the_source_tells_what_changed_nothing_else_is_looked_at():
    made = schedule(view("1"), view("2"))
    found = look(issue("1", title="other"), issue("2", title="other"), changed={"2"})
    assert seen(made, found) == [("seen", "2")]


@pytest.mark.parametrize("changed", [None, set[str]()])
def test_what_we_hold_is_followed_where_the_source_no_longer_lists_it(changed):
    """Such as a run whose issue was handed over: the source tells what changed of active issues alone."""
    made = schedule(running("1"), waiting("2"), parked("3"), view("1", state="Review"))
    assert held_elsewhere(made, {"3"}) == {"1", "2"}
    moved = look(issue("3", comments=None), changed=changed, states={"1": "Done", "2": "Todo"})
    assert seen(made, moved) == [("seen", "1")]
    gone = look(issue("3"), changed=changed, states={"2": "Todo"})
    assert seen(made, gone) == [("left", "1")]


@pytest.mark.parametrize("changed", [None, set[str]()])
def test_what_was_parked_since_the_last_look_gets_its_fingerprint(changed):
    made = schedule(parked("1"), view("2"))
    found = look(issue("1", comments=(Comment("c", "ada", "go on"),)), issue("2", comments=()), changed=changed)
    (event,) = check_observed(made, found, NOW, ())
    assert isinstance(event, ev.IssueSeen)
    assert event.view.fingerprint


def test_the_fingerprint_of_one_parking_does_not_free_the_issue_from_the_next():
    """A2O-09: the run may end, and a decision follow, before the next look."""
    made = schedule(parked("1"), view("1", fingerprint="after"))
    made.apply(ev.Claimed(at=NOW, issue_id="1", run_id="r1", identifier="D-1", attempt=2))
    park = ev.Park(kind="signal", reason="another key", fingerprint="at the end of the run")
    made.apply(ev.Settled(at=NOW, issue_id="1", run_id="r1", identifier="D-1", why="w", park=park))
    assert made.issues["1"].fingerprint == ""


def test_what_was_touched_while_the_source_was_asked_is_left_to_the_next_look():
    made = schedule(view("1"), view("2"))
    found = look(issue("1", state="In Progress"), issue("2", state="In Progress"))
    assert seen(made, found, touched=("1",)) == [("seen", "2")]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ev.Settled(at=NOW, issue_id="1", identifier="D-1", why="w"), True),
        (ev.Unparked(at=NOW, issue_id="1", identifier="D-1", why="w"), True),
        (ev.RetryDropped(at=NOW, issue_id="1", identifier="D-1", why="w"), True),
        (ev.Requested(at=NOW, issue_id="1", identifier="D-1", retry=waiting().retry), True),
        (ev.Skipped(at=NOW, issue_id="1", identifier="D-1", rule="no-slot"), False),
        (ev.TurnEnded(at=NOW, issue_id="1", turn=1), False),
    ],
)
def test_what_our_own_events_outdate_is_compared_again(event, expected):
    assert outdates(event) == expected


# -- views ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "blocks"),
    [("Todo", "D-2"), ("Done", ""), ("done", ""), ("Failed", "D-2 (Failed)"), ("", "D-2 (not in the tracker)")],
)
def test_a_failed_dependency_is_not_a_finished_one(state, blocks):
    rules = policy(terminal_states=("Done", "Failed"), failed_states=("failed",))
    blocked = issue(blocked_by=(Blocker("2", "D-2", state),))
    assert view_of(blocked, rules, parked=False).blocked_by == ((blocks,) if blocks else ())


def test_without_failed_states_every_terminal_state_finishes_a_dependency():
    blocked = issue(blocked_by=(Blocker("2", "D-2", "Done"),))
    assert view_of(blocked, POLICY, parked=False).blocked_by == ()


def test_an_issue_in_a_failed_state_is_over():
    rules = policy(terminal_states=("Done", "Failed"), failed_states=("Failed",))
    assert rules.is_terminal("failed")
    assert not rules.is_active("Failed")


@pytest.mark.parametrize(
    ("choice", "agent", "provider"),
    [
        (None, "", ""),
        (AgentChoice(), "", ""),
        (AgentChoice(kind="codex"), "codex", ""),
        (AgentChoice(credential="team-a"), "", "command/team-a"),
        (AgentChoice(kind="codex", credential="team-a"), "codex", "codex/team-a"),
    ],
)
def test_who_limits_an_agent_is_its_kind_and_its_account(choice, agent, provider):
    told = view_of(issue(agent=choice), POLICY, parked=False)
    assert (told.agent, told.provider) == (agent, provider)


def test_limits_of_an_issue_are_its_own():
    limits = Limits(sessions=1)
    assert view_of(issue(agent=AgentChoice(limits=limits)), POLICY, parked=False).limits == limits


def test_what_scheduling_keeps_of_an_issue_is_bounded():
    assert len(view_of(issue(title="x" * 10_000, description="y" * 10_000), POLICY, parked=False).title) == 200
    # A part of an address leads nowhere.
    assert view_of(issue(url="https://tracker.example/" + "x" * 10_000), POLICY, parked=False).url == ""


def test_a_title_that_is_cut_says_so():
    titles = [view_of(issue("1", title="x" * length), Policy(), parked=False).title for length in (200, 201, 9_999)]
    assert titles == ["x" * 200, "x" * 199 + "…", "x" * 199 + "…"]


def test_where_an_issue_is_in_the_tracker_is_told_once_and_neither_frees_it_nor_is_forgotten():
    here, elsewhere = (issue(url=f"https://tracker.example/{place}") for place in ("1", "moved"))
    assert fingerprint(here) == fingerprint(elsewhere) == fingerprint(issue())
    made = schedule(view("1"))
    for found, told in ((here, 1), (here, 0), (issue(), 0), (elsewhere, 1)):
        events = observe(made, look(found), NOW)
        assert len(events) == told
        for event in events:
            made.apply(event)
    assert made.issues["1"].url == elsewhere.url
