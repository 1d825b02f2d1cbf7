"""Dependencies and sub-issues of GitHub hold an issue back, and to know them takes few calls."""

from __future__ import annotations

import json

import anyio
import pytest

from sortie.core.model import Blocker
from sortie.core.policy import Policy
from sortie.errors import TrackerError
from sortie.trackers.github.blockers import ASKED_IN_A_LOOK
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import OWNER, REPOSITORY
from tests.servers.fault_proxy import Answer, refused
from tests.servers.github_scene import GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]

POLICY = Policy(
    active_states=("Todo", "In Progress"), terminal_states=("Done", "Wontfix"), failed_states=("Wontfix",)
)
ASKED = "GET .*/(dependencies/blocked_by|sub_issues).*"


def named(number: int) -> str:
    return f"{REPOSITORY}#{number}"


async def test_an_open_dependency_is_named_in_the_list_and_asked_for_once(scene: GitHubScene) -> None:
    blocker, blocked = scene.open("First", "Todo"), scene.open("Second", "Todo")
    scene.overlay.blocked_by[blocked] = [named(blocker)]
    tracker = scene.tracker()
    found = (await tracker.fetch_candidates()).issues
    assert found[0].blocked_by == ()
    assert found[1].blocked_by == (Blocker(str(blocker), named(blocker), "Todo"),)
    scene.open("Another", "Todo")
    await tracker.fetch_candidates()
    assert len(scene.server.asked(ASKED)) == 1
    assert (await tracker.fetch_issue(str(blocked))).blocked_by == found[1].blocked_by
    await tracker.aclose()


async def test_a_dependency_that_is_done_holds_nobody_and_one_that_failed_does(scene: GitHubScene) -> None:
    done, failed, blocked = scene.open("a"), scene.open("b"), scene.open("c", "Todo")
    scene.overlay.blocked_by[blocked] = [named(done), named(failed)]
    tracker = scene.tracker()
    (issue,) = (await tracker.fetch_candidates()).issues
    assert {blocker.state for blocker in issue.blocked_by} == {"open"}
    scene.edit(done, state="closed", state_reason="completed")
    scene.edit(failed, state="closed", state_reason="not_planned")
    blockers = (await tracker.fetch_issue(str(blocked))).blocked_by
    assert [(blocker.state, POLICY.satisfies(blocker.state)) for blocker in blockers] == [
        ("Done", True),
        ("Wontfix", False),
    ]
    found = await tracker.fetch_candidates()
    assert found.changed == frozenset({str(blocked)})
    await tracker.aclose()


async def test_what_a_look_had_read_before_it_was_given_up_is_told_by_the_next(scene: GitHubScene) -> None:
    """GitHub says then that its lists did not change; what was told before they did is no answer to that."""
    first = scene.open("First", "Todo")
    tracker = scene.tracker()
    await tracker.fetch_candidates()
    second = scene.open("Second", "Todo")
    scene.overlay.blocked_by[second] = [named(first)]
    scene.server.fail(ASKED, scene.server.silence())
    async with anyio.create_task_group() as looking:
        looking.start_soon(tracker.fetch_candidates)
        while not scene.server.asked(ASKED):
            await anyio.sleep(0.01)
        looking.cancel_scope.cancel()
    found = await tracker.fetch_candidates()
    assert [issue.id for issue in found.issues] == [str(first), str(second)]
    assert found.changed == frozenset({str(second)})
    await tracker.aclose()


async def test_a_dependency_in_another_repository_has_its_full_name(scene: GitHubScene) -> None:
    there = scene.emulate.call("POST", f"/repos/{OWNER}/other/issues", {"title": "There"})["number"]
    blocked = scene.open("Here", "Todo")
    scene.overlay.blocked_by[blocked] = [f"{OWNER}/other#{there}"]
    tracker = scene.tracker()
    (issue,) = (await tracker.fetch_candidates()).issues
    name = f"{OWNER}/other#{there}"
    assert issue.blocked_by == (Blocker(name, name, "open"),)
    await tracker.aclose()


async def test_a_parent_waits_for_its_open_sub_issues_unless_told_not_to(scene: GitHubScene) -> None:
    parent, child, dropped_child = scene.open("Parent", "Todo"), scene.open("Child", "Todo"), scene.open("Dropped")
    scene.overlay.sub_issues[parent] = [named(child), named(dropped_child)]
    scene.edit(dropped_child, state="closed", state_reason="not_planned")
    waiting, ignoring = scene.tracker(), scene.tracker(options={"sub_issues": "ignore"})
    expected = (Blocker(str(child), named(child), "Todo"),)
    assert (await waiting.fetch_candidates()).issues[0].blocked_by == expected
    assert (await waiting.fetch_issue(str(parent))).blocked_by == expected
    assert (await ignoring.fetch_candidates()).issues[0].blocked_by == ()
    assert (await ignoring.fetch_issue(str(parent))).blocked_by == ()
    scene.edit(child, state="closed")
    assert (await waiting.fetch_candidates()).issues[0].blocked_by == ()
    await waiting.aclose()
    await ignoring.aclose()


async def test_many_blocked_issues_are_all_held_though_few_are_asked_for(scene: GitHubScene) -> None:
    """A look at 200 candidates takes a bounded number of calls."""
    blocker = scene.open("Blocker")
    blocked = [scene.open(f"Task {n}", "Todo") for n in range(200)]
    scene.overlay.blocked_by = {number: [named(blocker)] for number in blocked}
    tracker = scene.tracker()
    first = await tracker.fetch_candidates()
    lists = 2 + 2  # two full pages, what might come after them, and the list of the other state
    assert len(scene.server.asked()) == lists + ASKED_IN_A_LOOK
    held = [issue for issue in first.issues if any(not POLICY.satisfies(one.state) for one in issue.blocked_by)]
    assert len(held) == 200
    unnamed = [issue for issue in first.issues if issue.blocked_by[0].identifier.endswith("'s dependencies")]
    assert len(unnamed) == 200 - ASKED_IN_A_LOOK
    second = await tracker.fetch_candidates()
    assert second.changed is not None
    assert len(second.changed) == ASKED_IN_A_LOOK
    await tracker.aclose()


async def test_blockers_that_the_token_may_not_see_hold_the_issue_all_the_same(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    scene.overlay.hidden_blockers[number] = 1
    tracker = scene.tracker()
    for issue in (*(await tracker.fetch_candidates()).issues, await tracker.fetch_issue(str(number))):
        assert [blocker.state for blocker in issue.blocked_by] == ["open"]
    await tracker.aclose()


async def test_blockers_that_cannot_be_asked_for_hold_the_issue_until_they_can(scene: GitHubScene) -> None:
    blocker, blocked = scene.open("First"), scene.open("Second", "Todo")
    scene.overlay.blocked_by[blocked] = [named(blocker)]
    tracker = scene.tracker()
    scene.server.fail(ASKED, refused(500), times=3)
    (issue,) = (await tracker.fetch_candidates()).issues
    assert issue.blocked_by[0].identifier.endswith("dependencies")
    (issue,) = (await tracker.fetch_candidates()).issues
    assert issue.blocked_by == (Blocker(str(blocker), named(blocker), "open"),)
    await tracker.aclose()


async def test_a_server_without_dependencies_is_asked_once_and_tells_the_rest(scene: GitHubScene) -> None:
    scene.overlay.has_features = False
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    for _ in range(2):
        assert (await tracker.fetch_issue(number)).blocked_by == ()
        assert (await tracker.fetch_candidates()).issues[0].blocked_by == ()
    assert len(scene.server.asked(ASKED)) == 2  # each feature once
    await tracker.aclose()


GONE = (refused(404, "Not Found"), refused(410, "This issue was deleted"))


@pytest.mark.parametrize("answer", GONE)
async def test_an_issue_that_went_since_the_list_switches_nothing_off_for_the_others(
    scene: GitHubScene, answer: Answer
) -> None:
    first, blocked, gone = scene.open("First"), scene.open("Second", "Todo"), scene.open("Third", "Todo")
    scene.overlay.blocked_by = {blocked: [named(first)], gone: [named(first)]}
    tracker = scene.tracker()
    scene.server.fail(f"GET .*/issues/{gone}(/.*)?", answer, times=99)
    await tracker.fetch_candidates()
    expected = (Blocker(str(first), named(first), "open"),)
    assert (await tracker.fetch_issue(str(blocked))).blocked_by == expected
    await tracker.aclose()


@pytest.mark.parametrize("answer", GONE)
async def test_so_it_is_where_records_do_not_say_how_many_blockers_there_are(
    scene: GitHubScene, answer: Answer
) -> None:
    """Then all hangs on the question: without an answer, what is blocked would start."""
    first, blocked, gone = scene.open("First"), scene.open("Second", "Todo"), scene.open("Third", "Todo")
    scene.overlay.blocked_by = {blocked: [named(first)], gone: [named(first)]}
    counts = {"issue_dependencies_summary", "sub_issues_summary"}
    scene.overlay.spoiled[blocked] = lambda record: {key: record[key] for key in record.keys() - counts}
    there = Answer(200, json.dumps(scene.record(gone)).encode())
    scene.server.fail(f"GET .*/issues/{gone}", there)  # and a moment later it is not
    scene.server.fail(f"GET .*/issues/{gone}(/.*)?", answer, times=99)
    tracker = scene.tracker()
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_issue(str(gone))
    assert failure.value.kind == TrackerError.NOT_FOUND
    expected = (Blocker(str(first), named(first), "open"),)
    assert (await tracker.fetch_issue(str(blocked))).blocked_by == expected
    await tracker.aclose()


async def test_dependencies_that_cannot_be_told_hold_an_issue_that_has_some(scene: GitHubScene) -> None:
    """The issue is there, and so are its counts: who is told of no blocker must not start."""
    blocked = scene.open("Task", "Todo")
    scene.overlay.hidden_blockers[blocked] = 1
    scene.server.fail(ASKED, refused(404, "Not Found"), times=99)
    tracker = scene.tracker()
    for issue in (*(await tracker.fetch_candidates()).issues, await tracker.fetch_issue(str(blocked))):
        assert [blocker.state for blocker in issue.blocked_by] == ["open"]
    await tracker.aclose()
