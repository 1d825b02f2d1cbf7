"""A log replays to the decisions in it, across restarts, and a log that was altered does not."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import assume, given, settings
from msgspec.structs import replace

from sortie.core import actions as act
from sortie.core import events as ev
from sortie.core.policy import Policy
from sortie.core.replay import replay

from .chance import AMPLE, FAILURE, POLICIES, STORIES, SUCCESS, Step, happen
from .facts import NOW, policy, view
from .simulation import Simulation


def played(rules: Policy, story: list[Step], issues: int = 4) -> list[ev.AnyEvent]:
    with closing(Simulation(rules, "In Progress")) as sim:
        sim.open_issues(issues)
        happen(sim, story, [rules])
        return sim.log


def first_ticks() -> list[ev.AnyEvent]:
    """Three issues for two slots, a failure, a crash, a second try."""
    with closing(Simulation(replace(AMPLE, max_concurrent=2))) as sim:
        sim.open_issues(3)
        sim.turn("2")
        sim.end("2", FAILURE)
        sim.restart()
        sim.now += 60
        sim.tick()
        sim.end("2", SUCCESS)
        sim.tick()
        return sim.log


def ticks_in(log: list[ev.AnyEvent]) -> list[int]:
    return [index for index, event in enumerate(log) if isinstance(event, ev.Ticked)]


@settings(max_examples=50, deadline=None)
@given(POLICIES, STORIES)
def test_what_was_decided_follows_from_the_log(rules, story):
    assert [*replay(played(rules, story))] == []


@settings(max_examples=50, deadline=None)
@given(POLICIES, STORIES)
def test_a_decision_that_is_not_what_it_was_is_found_where_it_is(rules, story):
    log = played(rules, story)
    ticks = ticks_in(log)
    assume(ticks)
    place = ticks[len(story) % len(ticks)]
    ticked = log[place]
    assert isinstance(ticked, ev.Ticked)
    log[place] = replace(ticked, actions=ticked.actions[1:])
    (divergence,) = replay(log)
    assert (divergence.index, divergence.at) == (place, ticked.at)
    assert (divergence.expected, divergence.got) == (ticked.actions[1:], ticked.actions)


def test_the_order_of_a_decision_is_part_of_it():
    log = first_ticks()
    place = ticks_in(log)[0]
    ticked = log[place]
    assert isinstance(ticked, ev.Ticked)
    log[place] = replace(ticked, actions=ticked.actions[::-1])
    assert [found.index for found in replay(log)] == [place]


@pytest.mark.parametrize(("kind", "nth"), [(ev.IssueSeen, 0), (ev.Claimed, 3), (ev.Settled, 0), (ev.PolicySet, 0)])
def test_a_log_with_something_missing_or_changed_diverges(kind, nth):
    log = first_ticks()
    assert [*replay(log)] == []
    place = [index for index, event in enumerate(log) if isinstance(event, kind)][nth]
    if kind is ev.PolicySet:
        log[place] = ev.PolicySet(at=NOW, policy=replace(AMPLE, max_concurrent=1))
    else:
        del log[place]
    assert next(replay(log)).index > place


def test_a_decision_that_differs_today_does_not_hide_the_ones_after_it():
    """What the log says goes on counting as true, so each divergence stands for itself."""
    log = first_ticks()
    ticks = ticks_in(log)
    for place in (ticks[0], ticks[-1]):
        ticked = log[place]
        assert isinstance(ticked, ev.Ticked)
        log[place] = replace(ticked, actions=())
    assert [found.index for found in replay(log)] == [ticks[0], ticks[-1]]


def test_what_the_tick_was_told_is_replayed_with_it():
    late = act.Overdue(issue_id="1", run_id="r1", cause="stalled", detail="quiet")
    stop = act.Stop(issue_id="1", run_id="r1", cause="stalled", detail="quiet")
    start = act.Start(issue_id="3", identifier="D-3", attempt=1)
    log: list[ev.AnyEvent] = [
        ev.PolicySet(at=NOW, policy=policy()),
        *(ev.IssueSeen(at=NOW, issue_id=key, view=view(key)) for key in "123"),
        ev.Claimed(at=NOW, issue_id="1", run_id="r1", identifier="D-1", attempt=1, day="2026-03-30"),
        ev.Ticked(at=NOW, candidates_known=False, overdue=(late,), actions=(stop,)),
        ev.Stopping(at=NOW, issue_id="1", run_id="r1", cause="stalled"),
        ev.Ticked(at=NOW, candidates_known=True, overdue=(late,), unsure=("2",), actions=(start,)),
    ]
    assert [*replay(log)] == []


def test_a_log_without_its_beginning_is_refused():
    ticked = ev.Ticked(at=NOW, candidates_known=True)
    with pytest.raises(ValueError, match="replay it from its beginning"):
        next(replay([ev.Opened(at=NOW, pid=1, version="0", workflow="w"), ticked]))


def test_an_empty_log_has_nothing_to_diverge():
    assert [*replay([])] == []
