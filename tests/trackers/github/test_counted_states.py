"""What the first look tells of issues that are in no active state, so that who has labelled none hears of it."""

from __future__ import annotations

import pytest

from sortie.trackers.tracker import Candidates
from tests.npm import TIME_TO_INSTALL
from tests.servers.fault_proxy import refused
from tests.servers.github_overlay import query_of
from tests.servers.github_scene import GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]


async def test_where_no_issue_has_a_label_of_an_active_state_the_first_look_tells_what_there_is(
    scene: GitHubScene,
) -> None:
    number = scene.open("Nobody labelled it")
    scene.open("In review", "In Review")
    tracker = scene.tracker()
    try:
        first = await tracker.fetch_candidates()
        assert (first.issues, dict(first.states)) == ((), {"open": 1, "In Review": 1})
        scene.server.forget()
        scene.edit(number, labels=["Todo"])
        assert [issue.id for issue in (await tracker.fetch_candidates()).issues] == [str(number)]
        scene.edit(number, labels=[])
        assert (await tracker.fetch_candidates()).states == {}
        assert all("labels" in query_of(asked) for asked in scene.server.asked("GET .*/issues\\?.*"))
    finally:
        await tracker.aclose()


async def test_of_more_issues_than_are_counted_it_is_said_that_there_are_more(scene: GitHubScene) -> None:
    for _ in range(101):
        scene.open("Nobody labelled it")
    tracker = scene.tracker()
    try:
        first = await tracker.fetch_candidates()
    finally:
        await tracker.aclose()
    assert (dict(first.states), first.counts_some) == ({"open": 100}, True)


async def test_a_count_that_cannot_be_had_costs_no_look(scene: GitHubScene) -> None:
    scene.open("Nobody labelled it")
    scene.server.fail(r"GET [^?]*/issues\?state=open&per_page=100", refused(500), times=9)
    tracker = scene.tracker()
    try:
        assert await tracker.fetch_candidates() == Candidates(())
    finally:
        await tracker.aclose()


async def test_of_what_a_filter_finds_the_states_are_told_without_a_further_call(scene: GitHubScene) -> None:
    scene.open("For agents", "agent")
    scene.open("For agents, in review", "agent", "In Review")
    scene.open("For people")
    tracker = scene.tracker(query_filter="label:agent")
    try:
        first = await tracker.fetch_candidates()
        assert (first.issues, dict(first.states)) == ((), {"open": 1, "In Review": 1})
        assert len(scene.server.asked()) == 1
    finally:
        await tracker.aclose()
