"""What is peculiar about Redmine, tried on a running one."""

from __future__ import annotations

import pytest
from redmine_tracker import RedmineTracker

from sortie import Blocker, TrackerError, TrackerSettings
from sortie.core.observe import mark, mark_of
from sortie.tools.tracker_api import Reach, handle
from sortie.trackers.rest_client import Bounds
from sortie.trackers.trust import judged_tracker

pytestmark = pytest.mark.anyio


@pytest.fixture
def tracker(connect, project):
    return connect(project)


async def refused(call):
    with pytest.raises(TrackerError) as failure:
        await call
    return failure.value


# -- what an issue is -------------------------------------------------------------------------------------------


async def test_an_issue_is_told_in_the_words_of_every_tracker(redmine, project, tracker):
    issue_id = redmine.issue(project, "Paint it", description="One\r\ntwo", priority_id=5)
    issue = await tracker.fetch_issue(issue_id)
    assert issue.identifier == f"{project}#{issue_id}"
    assert (issue.title, issue.description, issue.issue_type) == ("Paint it", "One\ntwo", "Task")
    assert issue.url == f"{redmine.url}/issues/{issue_id}"
    assert issue.created_at.endswith("Z")
    assert issue.priority == 1, "Immediate is the highest of five"
    assert (issue.author_id, issue.association) == (str(redmine.users["person"]["id"]), "member")
    (listed,) = (await tracker.fetch_candidates()).issues
    assert (listed.comments, listed.title, listed.association) == (None, "Paint it", "member")


async def test_notes_are_comments_and_private_ones_are_not(redmine, project, tracker):
    issue_id = redmine.issue(project)
    redmine.edit(issue_id, notes="First\r\nline")
    redmine.edit(issue_id, notes="Between us", private_notes=True)
    redmine.edit(issue_id, subject="Changed without a word")
    await tracker.comment(issue_id, mark("Begun.", "run.1:dispatch"))
    comments = (await tracker.fetch_issue(issue_id)).comments
    assert [comment.body for comment in comments] == ["First\nline", "Begun.\n\n<!-- sortie:run.1:dispatch -->"]
    assert [mark_of(comment.body) for comment in comments] == [None, "run.1:dispatch"]


HOSTILE = ("<script>alert(1)</script> &amp; </pre> {{x}}", "x" * 2**20, "\u202e🙂\u2028ü\x1b[31m")


@pytest.mark.parametrize("text", HOSTILE, ids=["html", "1 MB", "signs"])
async def test_hostile_text_comes_back_as_it_was(redmine, project, tracker, text):
    issue_id = redmine.issue(project, description=text)
    await tracker.comment(issue_id, text)
    issue = await tracker.fetch_issue(issue_id)
    assert issue.description == text
    assert [comment.body for comment in issue.comments] == [text]
    assert (await tracker.fetch_candidates()).issues[0].description == text


async def test_blockers_are_relations_and_subtasks(redmine, project, tracker):
    """One blocks only in one direction, and an issue of another project never looks like one of ours."""
    issue_id, blocker, blocked = (redmine.issue(project) for _ in range(3))
    child = redmine.issue(project, state="In Review", parent_issue_id=issue_id)
    redmine.block(issue_id, blocker)
    redmine.block(blocked, issue_id)
    assert (await tracker.fetch_issue(issue_id)).blocked_by == (
        Blocker(blocker, f"{project}#{blocker}", "Todo"),
        Blocker(child, f"{project}#{child}", "In Review"),
    )
    assert [each.id for each in (await tracker.fetch_issue(blocked)).blocked_by] == [issue_id]
    assert (await tracker.fetch_issue(child)).parent.id == issue_id


async def test_an_issue_of_another_project_is_none_of_ours(redmine, project, tracker):
    """Neither one of a subproject nor one that was moved away; agents are refused both."""
    below = redmine.project(parent_id=redmine("GET", f"/projects/{project}.json")["project"]["id"])
    moved, other = redmine.issue(project), redmine.issue(below)
    assert [each.id for each in (await tracker.fetch_candidates()).issues] == [moved]
    redmine.edit(moved, project_id=below)
    assert (await tracker.fetch_candidates()).issues == ()
    assert await tracker.fetch_states([moved, other]) == {}
    assert (await tracker.fetch_issue(moved)).identifier == f"#{moved}"
    settings = TrackerSettings(kind="redmine", active_states=("Todo",), project=project)
    order = {"operation": "transition_issue", "issue_id": other, "target_state": "Done"}
    answer = await handle(order, tracker, settings, Reach())
    assert answer["error"]["kind"] == "project_scope_violation"
    assert (await tracker.fetch_issue(other)).state == "Todo"


async def test_the_word_of_a_stranger_does_not_count(redmine):
    """In a public project every account may write; by default only members are trusted."""
    project = redmine.project(is_public=True)
    issue_id = redmine.issue(project, by="stranger")
    redmine.edit(issue_id, notes="I am a member", by="stranger")
    redmine.edit(issue_id, notes="I really am", by="person")
    tracker = judged_tracker(redmine.kind, redmine.settings(project))
    issue = await tracker.fetch_issue(issue_id)
    assert issue.trusted is False
    assert [comment.trusted for comment in issue.comments] == [False, True]
    await tracker.aclose()


# -- moves ------------------------------------------------------------------------------------------------------


async def test_a_move_that_the_workflow_forbids_is_an_error_though_redmine_says_nothing(redmine, project, tracker):
    issue_id = redmine.issue(project)
    error = await refused(tracker.transition(issue_id, "Rejected"))
    assert error.kind == TrackerError.PAYLOAD
    assert 'from "Todo" to "Rejected"' in str(error)
    assert "allowed: In Progress, Todo, In Review, Done" in str(error)
    assert (await tracker.fetch_issue(issue_id)).state == "Todo"


async def test_an_issue_with_unfinished_subtasks_is_not_closed(redmine, project, tracker):
    issue_id = redmine.issue(project)
    redmine.issue(project, parent_issue_id=issue_id)
    assert (await refused(tracker.transition(issue_id, "Done"))).kind == TrackerError.PAYLOAD
    await tracker.transition(issue_id, "in review")
    assert (await tracker.fetch_issue(issue_id)).state == "In Review"


# -- many issues, and what they cost ----------------------------------------------------------------------------


async def test_more_than_a_page_is_read_page_by_page(connect):
    tracker = connect("many", query_filter="subject=~Chosen")
    found = await tracker.fetch_candidates()
    assert {issue.title for issue in found.issues} == {f"Chosen {number}" for number in range(1, 251)}
    assert found.problems == ()
    before = tracker.call_use().made
    await tracker.fetch_candidates()
    assert tracker.call_use().made - before == 3
    states = await tracker.fetch_states([issue.id for issue in found.issues])
    assert (len(states), {*states.values()}) == (250, {"Todo"})
    assert tracker.call_use().made - before == 6


async def test_what_is_too_much_is_told_and_the_most_urgent_is_seen(connect):
    tracker = connect("many")
    found = await tracker.fetch_candidates()
    assert len(found.issues) == 1000
    assert {issue.priority for issue in found.issues[:250]} == {2}
    (problem,) = found.problems
    assert "1050 issues" in problem
    assert "only the first 1000" in problem


async def test_what_is_too_large_to_be_told_at_once_is_told_in_parts(redmine, project):
    """Anybody may write as much as he likes; the others are seen all the same."""
    issues = [redmine.issue(project, description="x" * 20_000) for _ in range(12)]
    bounds = Bounds(one_try=24.0, answer=100_000)
    tracker = RedmineTracker(redmine.settings(project), bounds)
    assert [issue.id for issue in (await tracker.fetch_candidates()).issues] == issues
    assert await tracker.fetch_states(issues) == dict.fromkeys(issues, "Todo")
    await tracker.aclose()


async def test_what_each_call_costs(redmine, project, tracker):
    issue_id, blocker = redmine.issue(project), redmine.issue(project)
    redmine.block(issue_id, blocker)

    async def cost(call):
        before = tracker.call_use().made
        await call
        return tracker.call_use().made - before

    assert await cost(tracker.fetch_candidates()) == 5, "the first look asks for statuses, priorities, members too"
    assert await cost(tracker.fetch_candidates()) == 1
    assert await cost(tracker.fetch_issue(blocker)) == 1
    assert await cost(tracker.fetch_issue(issue_id)) == 2
    assert await cost(tracker.fetch_states([issue_id, blocker])) == 1
    assert await cost(tracker.transition(issue_id, "In Progress")) == 3
    assert await cost(tracker.transition(issue_id, "In Progress")) == 1
    assert await cost(tracker.comment(issue_id, "Done.")) == 1


async def test_without_states_all_issues_are_listed(redmine, project, connect):
    for state in ("Todo", "In Review", "Done"):
        redmine.issue(project, state=state)
    tracker = connect(project, active_states=())
    assert [issue.state for issue in (await tracker.fetch_candidates()).issues] == ["Todo", "In Review", "Done"]


async def test_a_state_that_redmine_does_not_have_is_told_at_every_look(redmine, project, connect):
    redmine.issue(project)
    for states, seen in ((("Todo", "Tood"), 1), (("Tood",), 0)):
        tracker = connect(project, active_states=states)
        found = await tracker.fetch_candidates()
        assert (len(found.issues), found.problems) == (seen, ('Redmine has no status "Tood".',))
