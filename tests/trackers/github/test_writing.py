"""Moving and commenting on GitHub: one state at a time, safe at every point, and visible at once."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from sortie.core.observe import fingerprint, mark, mark_of
from sortie.errors import TrackerError
from sortie.trackers.github.api import GitHubApi
from sortie.trackers.github.comments import LONGEST_BODY, fitting, read_comments
from sortie.trackers.github.github import GitHubTracker
from sortie.trackers.tracker import Candidates
from sortie.trackers.trust import judged_tracker
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import REPOSITORY
from tests.servers.fault_proxy import Answer, dropped, refused
from tests.servers.github_scene import ISSUES, GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]

WRITES = "(POST|PATCH|PUT|DELETE) .*"


def states(found: Candidates) -> dict[str, str]:
    return {issue.id: issue.state for issue in found.issues}


async def test_a_move_between_labels_adds_before_it_removes_and_leaves_the_rest(scene: GitHubScene) -> None:
    number = scene.open("Task", "bug", "todo", "in review")
    tracker = scene.tracker()
    await tracker.transition(str(number), "in progress")
    assert scene.labels(number) == ["In Progress", "bug"]
    methods = [asked.method for asked in scene.server.asked(WRITES)]
    assert methods == ["POST", "DELETE", "DELETE"]
    await tracker.aclose()


@pytest.mark.parametrize("labels", [["Todo"], ["TODO", "bug"]])
async def test_an_issue_that_is_there_is_not_written_to(scene: GitHubScene, labels: list[str]) -> None:
    number = scene.open("Task", *labels)
    closed = scene.open("Closed by hand")
    scene.edit(closed, state="closed")
    tracker = scene.tracker()
    await tracker.transition(str(number), "Todo")
    await tracker.transition(str(closed), "Done")
    assert scene.server.asked(WRITES) == []
    await tracker.aclose()


async def test_a_name_of_a_label_is_safe_in_an_address(scene: GitHubScene) -> None:
    hostile = "a/../b?c#d %2F ü"
    number = scene.open("Task", hostile)
    tracker = scene.tracker(active_states=(hostile, "Todo"), in_progress_state="")
    assert states(await tracker.fetch_candidates()) == {str(number): hostile}
    await tracker.transition(str(number), "Todo")
    assert scene.labels(number) == ["Todo"]
    await tracker.aclose()


async def test_a_move_that_was_cut_short_reads_as_not_begun_and_is_completed_later(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    scene.server.fail(f"DELETE {ISSUES}/{number}/labels/.*", refused(500), times=3)
    with pytest.raises(TrackerError):
        await tracker.transition(str(number), "In Progress")
    assert scene.labels(number) == ["In Progress", "Todo"]
    assert await tracker.fetch_states([str(number)]) == {str(number): "Todo"}
    assert states(await tracker.fetch_candidates()) == {str(number): "Todo"}
    await tracker.transition(str(number), "In Progress")
    assert scene.labels(number) == ["In Progress"]
    assert states(await tracker.fetch_candidates()) == {str(number): "In Progress"}
    await tracker.aclose()


@pytest.mark.parametrize("target", ["In Progress", "Done"])
async def test_an_answer_that_was_lost_does_not_matter(scene: GitHubScene, target: str) -> None:
    """What was written is written again, and is the same."""
    number = scene.open("Task", "Todo", "bug")
    tracker = scene.tracker()
    scene.server.fail("(POST|PATCH|DELETE) .*", dropped(), times=1, is_done_first=True)
    await tracker.transition(str(number), target)
    assert scene.labels(number) == sorted([target, "bug"])
    assert await tracker.fetch_states([str(number)]) == {str(number): target}
    await tracker.aclose()


async def test_a_move_whose_answer_was_lost_shows_at_once(scene: GitHubScene) -> None:
    """Also where the lists are behind."""
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    await tracker.fetch_candidates()
    scene.server.freeze_lists()
    scene.server.fail("PATCH .*", dropped(), is_done_first=True)
    await tracker.transition(str(number), "Done")
    assert (await tracker.fetch_candidates()).issues == ()
    await tracker.aclose()


async def test_a_label_that_somebody_took_away_meanwhile_is_no_error(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo", "In Review")
    tracker = scene.tracker()
    gone = refused(404, "Label does not exist")
    scene.server.fail(f"DELETE {ISSUES}/{number}/labels/In%20Review", gone, is_done_first=True)
    await tracker.transition(str(number), "In Progress")
    assert scene.labels(number) == ["In Progress"]
    await tracker.aclose()


@pytest.mark.parametrize("target", ["Done", "In Progress"])
async def test_a_label_that_github_drops_silently_is_an_error_and_nothing_is_closed(
    scene: GitHubScene, target: str
) -> None:
    """So it does for an account that may close its own issue, but not label it."""
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    scene.overlay.drops_labels = True
    with pytest.raises(TrackerError) as failure:
        await tracker.transition(str(number), target)
    assert failure.value.kind == TrackerError.AUTH
    assert "Triage" in failure.value.fix
    assert (scene.record(number)["state"], scene.labels(number)) == ("open", ["Todo"])
    await tracker.aclose()


async def test_a_label_that_cannot_be_taken_away_is_an_error_though_github_says_there_is_none(
    scene: GitHubScene,
) -> None:
    number = scene.open("Task", "Todo", "In Review")
    tracker = scene.tracker()
    scene.server.fail("DELETE .*", refused(404, "Not Found"))
    with pytest.raises(TrackerError) as failure:
        await tracker.transition(str(number), "In Progress")
    assert failure.value.kind == TrackerError.AUTH
    assert f"did not take the label from {REPOSITORY}#{number}" in str(failure.value)
    await tracker.aclose()


@pytest.mark.parametrize(
    ("call", "did"),
    [("POST .*/labels", "set the labels of"), ("PATCH .*", "close"), ("POST .*/comments", "comment on")],
)
async def test_what_github_calls_not_found_of_an_issue_that_is_there_the_token_may_not_do(
    scene: GitHubScene, call: str, did: str
) -> None:
    """So it answers a classic token that lacks the scope."""
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    scene.server.fail(call, refused(404, "Not Found"))
    with pytest.raises(TrackerError) as failure:
        await tracker.transition(str(number), "Done")
        await tracker.comment(str(number), "Done.")
    assert failure.value.kind == TrackerError.AUTH
    assert f"did not {did} {REPOSITORY}#{number}" in failure.value.message
    assert "scope repo" in failure.value.fix
    await tracker.aclose()


async def test_a_comment_on_an_issue_that_is_gone_is_not_found(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    scene.overlay.gone.add(number)
    with pytest.raises(TrackerError) as failure:
        await tracker.comment(str(number), "Done.")
    assert failure.value.kind == TrackerError.NOT_FOUND
    await tracker.aclose()


async def test_an_issue_that_vanishes_during_its_move_is_not_found(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()

    def vanishes(record: dict[str, Any]) -> dict[str, Any]:
        del scene.overlay.spoiled[number]
        scene.overlay.gone.add(number)
        return record

    scene.overlay.spoiled[number] = vanishes
    with pytest.raises(TrackerError) as failure:
        await tracker.transition(str(number), "Done")
    assert failure.value.kind == TrackerError.NOT_FOUND
    await tracker.aclose()


async def test_a_state_of_no_workflow_is_refused_with_the_list(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    with pytest.raises(TrackerError) as failure:
        await tracker.transition(str(number), "Somewhere")
    assert failure.value.kind == TrackerError.PAYLOAD
    assert re.search("open, closed, In Progress, In Review, Done, Wontfix, Todo", str(failure.value))
    assert scene.server.asked() == []
    await tracker.aclose()


async def test_moves_of_one_issue_at_once_leave_one_state(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo", "bug")
    tracker = scene.tracker()
    async with anyio.create_task_group() as tasks:
        for state in ("In Progress", "In Review", "Todo", "In Review", "In Progress"):
            tasks.start_soon(tracker.transition, str(number), state)
    labels = scene.labels(number)
    assert labels[-1] == "bug"
    assert len(labels) == 2
    await tracker.aclose()


# -- what we wrote shows at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("query_filter", ["", "-label:other"])
async def test_a_list_that_is_behind_does_not_show_the_state_before(scene: GitHubScene, query_filter: str) -> None:
    one, two = (str(scene.open(f"Task {n}", "Todo")) for n in range(2))
    tracker = scene.tracker(query_filter=query_filter)
    await tracker.fetch_candidates()
    scene.server.freeze_lists()
    await tracker.transition(one, "In Progress")
    await tracker.transition(two, "In Review")
    found = await tracker.fetch_candidates()
    assert states(found) == {one: "In Progress"}
    assert found.changed == frozenset({one, two})
    assert await tracker.fetch_states([one, two]) == {one: "In Progress", two: "In Review"}
    await tracker.transition(two, "Done")
    assert states(await tracker.fetch_candidates()) == {one: "In Progress"}
    scene.server.thaw_lists()
    assert states(await tracker.fetch_candidates()) == {one: "In Progress"}
    await tracker.aclose()


async def test_an_issue_that_the_list_does_not_show_yet_is_there(scene: GitHubScene) -> None:
    number = str(scene.open("Task", "In Review"))
    tracker = scene.tracker()
    assert states(await tracker.fetch_candidates()) == {}
    scene.server.freeze_lists()
    await tracker.transition(number, "Todo")
    assert states(await tracker.fetch_candidates()) == {number: "Todo"}
    await tracker.aclose()


async def test_what_somebody_does_after_us_within_the_same_second_shows(scene: GitHubScene) -> None:
    one, two = (scene.open(f"Task {n}", "Todo") for n in range(2))
    tracker = scene.tracker()
    await tracker.fetch_candidates()
    await tracker.transition(str(one), "In Progress")
    await tracker.transition(str(two), "In Review")
    scene.edit(one, labels=["In Review"])
    scene.edit(two, labels=["Todo"])
    assert states(await tracker.fetch_candidates()) == {str(two): "Todo"}
    assert await tracker.fetch_states([str(one), str(two)]) == {str(one): "In Review", str(two): "Todo"}
    assert (await tracker.fetch_issue(str(one))).state == "In Review"
    await tracker.aclose()


async def test_an_issue_that_was_handed_over_costs_no_further_call(scene: GitHubScene) -> None:
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    assert states(await tracker.fetch_candidates()) == {number: "Todo"}
    await tracker.transition(number, "In Review")
    scene.server.forget()
    assert states(await tracker.fetch_candidates()) == {}
    assert len(scene.server.asked()) == 2  # the two lists
    await tracker.aclose()


# -- comments ------------------------------------------------------------------------------------------------------


async def test_comments_come_with_their_authors_and_all_that_github_allows_are_read(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    scene.overlay.associations["ann"] = "MEMBER"
    for n in range(1150):
        scene.comment(number, f"Comment {n}")
    scene.comment(number, "The last", by="ann")
    tracker = scene.tracker()
    comments = (await tracker.fetch_issue(str(number))).comments or ()
    assert (comments[-1].author, comments[-1].author_id, comments[-1].association) == ("ann", "ann", "MEMBER")
    bodies = [comment.body for comment in comments]
    assert bodies == [*(f"Comment {n}" for n in range(1150)), "The last"]
    api = GitHubApi(scene.settings())
    few = await read_comments(api, await api.fetch(number), most_pages=3)
    await api.aclose()
    assert [comment.body for comment in few] == ["[The first 900 comments are left out.]", *bodies[900:]]
    await tracker.aclose()


async def test_a_stranger_cannot_push_out_what_somebody_whose_word_counts_said(scene: GitHubScene) -> None:
    """With one comment more than ten pages hold, and the fingerprint by which people wake an issue is the same."""
    number = scene.open("Task", "Todo")
    scene.comment(number, "Take the blue one.")
    for n in range(999):
        scene.comment(number, f"Noise {n}", by="bob")
    tracker = judged_tracker(GitHubTracker, scene.settings())
    before = await tracker.fetch_issue(str(number))
    scene.comment(number, "More noise", by="bob")
    after = await tracker.fetch_issue(str(number))
    assert [len(issue.comments or ()) for issue in (before, after)] == [1000, 1001]
    assert fingerprint(before) == fingerprint(after)
    await tracker.aclose()


async def test_an_issue_without_comments_is_not_asked_for_any(scene: GitHubScene) -> None:
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    assert (await tracker.fetch_issue(number)).comments == ()
    assert scene.server.asked(".*/comments.*") == []
    await tracker.aclose()


async def test_a_comment_that_may_have_been_made_is_not_made_again(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    for answer in (dropped(), refused(502), Answer(200, b"")):
        scene.server.fail(f"POST {ISSUES}/{number}/comments", answer, is_done_first=True)
    for _ in range(2):
        with pytest.raises(TrackerError):
            await tracker.comment(str(number), "Started.")
    await tracker.comment(str(number), "Started.")
    assert [comment["body"] for comment in scene.comments(number)] == ["Started."] * 3
    await tracker.aclose()


async def test_a_comment_whose_answer_was_lost_is_found_whatever_the_count_says(scene: GitHubScene) -> None:
    """GitHub may have it before it counts it; whoever looks whether it is there would make it twice."""
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    scene.server.fail(f"POST {ISSUES}/{number}/comments", dropped(), is_done_first=True)
    with pytest.raises(TrackerError):
        await tracker.comment(str(number), "Started.")
    scene.overlay.spoiled[number] = lambda record: {**record, "comments": 0}
    found = (await tracker.fetch_issue(str(number))).comments or ()
    assert [comment.body for comment in found] == ["Started."]
    await tracker.aclose()


async def test_a_comment_that_is_too_long_keeps_our_last_line(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    tracker = scene.tracker()
    await tracker.comment(str(number), mark("Output:\n" + "x" * 100_000, "effect-7"))
    (comment,) = (await tracker.fetch_issue(str(number))).comments or ()
    (written,) = scene.comments(number)
    assert mark_of(comment.body) == mark_of(written["body"]) == "effect-7"
    assert len(written["body"]) == LONGEST_BODY
    assert "left out" in written["body"]
    await tracker.aclose()


@pytest.mark.parametrize("text", ["x" * 70_000, "🙂" * 40_000, "é" * 65_537, "\ud800" * 70_000])
def test_a_body_is_cut_to_what_github_takes(text: str) -> None:
    for body in (text, mark(text, "e1")):
        cut = fitting(body)
        assert len(cut.encode("utf-16-le")) // 2 <= LONGEST_BODY
        assert mark_of(cut) == mark_of(body)
    assert fitting("short\n\nlines") == "short\n\nlines"
    assert fitting("y" * LONGEST_BODY) == "y" * LONGEST_BODY
