"""A log replays to the decisions in it, across restarts, and a log that was altered does not."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.policy import Policy
from sortie.core.replay import replay

from .chance import AMPLE, FAILURE, POLICIES, STORIES, SUCCESS, Step, happen
from .facts import DAY, NOW, policy, view
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


def about(event: ev.AnyEvent) -> tuple[str, str]:
    return ev.kind_of(event), event.issue_id


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
    answer = log[place + 1 : place + 1 + ticked.decided]
    log[place] = replace(ticked, decided=ticked.decided - 1)
    (divergence,) = replay(log)
    assert (divergence.index, divergence.at) == (place, ticked.at)
    assert [*map(about, divergence.expected)] == [*map(about, answer[:-1])]
    assert [*map(about, divergence.got)] == [*map(about, answer)]


def test_the_order_of_a_decision_is_part_of_it():
    log = first_ticks()
    place = ticks_in(log)[0]
    ticked = log[place]
    assert isinstance(ticked, ev.Ticked)
    answer = slice(place + 1, place + 1 + ticked.decided)
    log[answer] = log[answer][::-1]
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
    found = next(replay(log)).index
    if kind is ev.Claimed:  # part of an answer, so the decision itself is not what it was
        assert found == max(tick for tick in ticks_in(log) if tick < place)
    else:
        assert found > place


def test_a_decision_that_differs_today_does_not_hide_the_ones_after_it():
    """What the log says goes on counting as true, so each divergence stands for itself."""
    log = first_ticks()
    ticks = ticks_in(log)
    for place in (ticks[0], ticks[-1]):
        ticked = log[place]
        assert isinstance(ticked, ev.Ticked)
        log[place] = replace(ticked, decided=0)
    assert [found.index for found in replay(log)] == [ticks[0], ticks[-1]]


def test_what_the_tick_was_told_is_replayed_with_it():
    late = ev.Overdue(issue_id="1", run_id="r1", cause="stalled", detail="quiet")
    place = ev.Place(host="build-1", free=1)
    common: dict[str, Any] = {"at": NOW, "attempt": 1, "agent": "command", "day": DAY}
    log: list[ev.AnyEvent] = [
        ev.PolicySet(at=NOW, policy=policy()),
        *(ev.IssueSeen(at=NOW, issue_id=key, view=view(key)) for key in "1234"),
        ev.Claimed(issue_id="1", run_id="r1", identifier="D-1", **common),
        ev.Ticked(at=NOW, candidates_known=False, overdue=(late,), decided=1),
        ev.Stopping(at=NOW, issue_id="1", run_id="r1", cause="stalled", detail="quiet"),
        ev.Ticked(at=NOW, candidates_known=True, overdue=(late,), unsure=("2",), places=(place,), decided=2),
        ev.Claimed(issue_id="3", run_id="r3", identifier="D-3", host="build-1", **common),
        ev.Skipped(at=NOW, issue_id="4", identifier="D-4", rule="no-host", detail="no host takes another run"),
    ]
    assert [*replay(log)] == []


# -- logs of earlier versions -----------------------------------------------------------------------------------


def earlier_log() -> list[dict[str, Any]]:
    """As version 0.1 wrote it: a decision is a list of actions in its tick, and the events that follow it.

    All kinds of actions are in it, runs that were overdue, issues that were left alone, six starts of the service.
    """
    lines = Path(__file__).with_name("earlier_log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def replayed(log: list[dict[str, Any]]) -> list[int]:
    return [found.index for found in replay(ev.decode(json.dumps(line)) for line in log)]


def test_a_log_of_an_earlier_version_replays():
    log = earlier_log()
    ticks = [line for line in log if line["kind"] == "tick"]
    acted = {action["do"] for tick in ticks for action in tick["actions"]}
    assert acted == {"start", "stop", "drop", "park", "unpark", "skip"}
    assert any(tick.get("overdue") for tick in ticks)
    assert any(tick.get("unsure") for tick in ticks)
    assert replayed(log) == []


@pytest.mark.parametrize("kind", ["claim", "stop", "drop", "park", "unpark"])
def test_an_event_of_an_earlier_version_that_does_not_follow_is_found(kind):
    log = earlier_log()
    answers = [
        (tick, place)
        for tick, line in enumerate(log)
        for place in range(tick + 1, tick + 1 + len(line.get("actions", ())))
    ]
    tick, place = next((tick, place) for tick, place in answers if log[place]["kind"] == kind)
    log[place]["issue_id"] = "another"
    assert replayed(log)[0] == tick


def test_what_kept_an_issue_from_starting_in_an_earlier_version_may_have_had_another_word():
    """Each issue was told what was lacking when it was its turn; which issues start is the same."""
    log = earlier_log()
    words = [line for line in log if line["kind"] == "skip" and line["rule"] == "no-slot"]
    words[0]["rule"] = "no-state-slot"
    assert replayed(log) == []
    starts = [line for line in log if line["kind"] == "claim"]
    starts[0]["attempt"] = 7
    assert replayed(log) != []


def test_a_log_without_its_beginning_is_refused():
    ticked = ev.Ticked(at=NOW, candidates_known=True)
    with pytest.raises(ValueError, match="replay it from its beginning"):
        next(replay([ev.Opened(at=NOW, pid=1, version="0", workflow="w"), ticked]))


def test_an_empty_log_has_nothing_to_diverge():
    assert [*replay([])] == []
