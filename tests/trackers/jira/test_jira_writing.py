"""What the Jira tracker writes: transitions as the workflow allows them, and comments that it knows again."""

from __future__ import annotations

import pytest

from sortie.core.observe import mark, mark_of
from sortie.errors import TrackerError
from sortie.trackers.jira.jira import JiraTracker
from tests import npm
from tests.servers.jira_fake import JiraFake, answers, drops
from tests.servers.jira_store import ANN, Transition, paragraph

pytestmark = [pytest.mark.anyio, npm.TIME_TO_INSTALL]


async def refused(tracker: JiraTracker, issue_id: int, state: str) -> TrackerError:
    with pytest.raises(TrackerError) as failure:
        await tracker.transition(str(issue_id), state)
    return failure.value


async def test_an_issue_moves_by_the_state_that_a_transition_leads_to(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.moves["Todo"] = [Transition("Done", "Drop"), Transition("In Progress", "Begin")]
    await tracker.transition(str(issue.id), "in progress ")
    assert issue.status == "In Progress"
    assert jira.requests[-1][2] == {"transition": {"id": "12"}}


async def test_a_transition_can_be_called_by_its_own_name(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.moves["Todo"] = [Transition("Done", "Drop"), Transition("In Progress", "Begin")]
    await tracker.transition(str(issue.id), "drop")
    assert issue.status == "Done"


async def test_the_state_counts_more_than_a_name(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.moves["Todo"] = [Transition("In Review", "Done"), Transition("Done", "In Review")]
    await tracker.transition(str(issue.id), "Done")
    assert issue.status == "Done"


async def test_an_issue_in_the_state_already_is_left_alone(jira: JiraFake, tracker: JiraTracker) -> None:
    """Also where the workflow has a transition from the state to itself."""
    issue = jira.store.add()
    jira.store.moves["Todo"] = [Transition("Todo", "Again")]
    before = issue.updated
    await tracker.transition(str(issue.id), "TODO")
    assert (issue.updated, jira.calls("POST")) == (before, [])


async def test_a_move_that_the_workflow_does_not_have_is_explained(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.moves["Todo"] = [Transition("In Progress", "Begin"), Transition("Done", "Drop")]
    error = await refused(tracker, issue.id, "In Review")
    assert error.kind == TrackerError.PAYLOAD
    assert str(error) == (
        'PROJ-1 is in "Todo" and cannot move to "In Review"; from there Jira allows: In Progress, Done. '
        "Allow the transition in Jira's workflow, or choose one of these."
    )
    assert jira.calls("POST") == []


async def test_without_the_permission_to_move_that_is_said(jira: JiraFake, tracker: JiraTracker) -> None:
    jira.permissions.discard("TRANSITION_ISSUES")
    error = await refused(tracker, jira.store.add().id, "Done")
    assert error.kind == TrackerError.PAYLOAD
    assert 'Jira offers no transition at all. Give the account the permission "Transition issues"' in str(error)


async def test_fields_that_somebody_has_to_fill_in_are_named(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.moves["Todo"] = [Transition("Done", fields=["Resolution", "Reason"])]
    error = await refused(tracker, issue.id, "Done")
    assert error.kind == TrackerError.PAYLOAD
    assert 'Jira moves PROJ-1 to "Done" only with these fields filled in: Resolution, Reason.' in str(error)
    assert (issue.status, jira.calls("POST")) == ("Todo", [])


async def test_of_several_ways_the_one_that_asks_for_least_is_taken(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.moves["Todo"] = [
        Transition("Done", "with reason", fields=["Resolution"]),
        Transition("Done", "with screen", has_screen=True),
        Transition("Done", "plain"),
    ]
    await tracker.transition(str(issue.id), "Done")
    assert (issue.status, jira.requests[-1][2]) == ("Done", {"transition": {"id": "13"}})


async def test_what_jira_refuses_is_told_in_its_words(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.moves["Todo"] = [Transition("Done", refusal=(400, "The validator said no."))]
    error = await refused(tracker, issue.id, "Done")
    assert (error.kind, "The validator said no." in str(error)) == (TrackerError.PAYLOAD, True)


async def test_a_conflict_is_tried_once_more(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.moves["Todo"] = [Transition("Done", refusal=(409, "Somebody else changed it."))]
    await tracker.transition(str(issue.id), "Done")
    assert (issue.status, len(jira.calls("POST"))) == ("Done", 2)
    jira.store.move(issue, "Todo")
    jira.fault("POST .*/transitions", answers(409, {"errorMessages": ["Somebody else changed it."]}), times=2)
    error = await refused(tracker, issue.id, "Done")
    assert (error.kind, "Somebody else changed it." in str(error)) == (TrackerError.PAYLOAD, True)


async def test_a_move_whose_answer_is_lost_may_be_asked_for_again(jira: JiraFake, tracker: JiraTracker) -> None:
    """It is not repeated by itself; the next look does not believe a search that lags either."""
    issue = jira.store.add()
    jira.store.is_late = True
    jira.fault("POST .*/transitions", drops, after=True)
    error = await refused(tracker, issue.id, "In Review")
    assert (error.kind, issue.status) == (TrackerError.TRANSPORT, "In Review")
    assert (await tracker.fetch_candidates()).issues == ()
    await tracker.transition(str(issue.id), "In Review")
    assert len(jira.calls("POST .*/transitions")) == 1


async def test_an_issue_that_is_not_there_is_not_found(jira: JiraFake, tracker: JiraTracker) -> None:
    error = await refused(tracker, 4711, "Done")
    assert error.kind == TrackerError.NOT_FOUND
    assert "Issue does not exist or you do not have permission to see it." in str(error)
    with pytest.raises(TrackerError) as failure:
        await tracker.comment("4711", "hello")
    assert failure.value.kind == TrackerError.NOT_FOUND


async def test_a_comment_has_its_structure_in_jira(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    await tracker.comment(str(issue.id), mark("## Done\n\n- *tests* pass\n- see `log`", "run-7.comment"))
    kinds = [node["type"] for node in issue.comments[0].body["content"]]
    assert kinds == ["heading", "bulletList", "paragraph"]
    (found,) = (await tracker.fetch_issue(str(issue.id))).comments or ()
    assert found.body == "## Done\n\n- *tests* pass\n- see `log`\n\n<!-- sortie:run-7.comment -->"
    assert mark_of(found.body) == "run-7.comment"


async def test_a_comment_whose_answer_is_lost_is_not_sent_twice(jira: JiraFake, tracker: JiraTracker) -> None:
    """Whoever asked can find out by its mark whether it is there."""
    issue = jira.store.add()
    jira.fault("POST .*/comment", drops, after=True)
    with pytest.raises(TrackerError) as failure:
        await tracker.comment(str(issue.id), mark("Done.", "run-1.comment"))
    assert (failure.value.kind, failure.value.passing) == (TrackerError.TRANSPORT, True)
    found = (await tracker.fetch_issue(str(issue.id))).comments or ()
    assert [mark_of(comment.body) for comment in found] == ["run-1.comment"]


async def test_comments_of_any_length_are_taken(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    await tracker.comment(str(issue.id), mark("word and word\n" * 20_000, "run-1.comment"))
    (found,) = (await tracker.fetch_issue(str(issue.id))).comments or ()
    assert "[The rest is too long for a comment in Jira and left out.]" in found.body
    assert mark_of(found.body) == "run-1.comment"


async def test_who_answers_below_a_comment_of_ours_is_heard(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    await tracker.comment(str(issue.id), mark("Which one?", "run-1.comment"))
    quoted = issue.comments[0].body["content"]
    jira.store.comment(
        issue, {"version": 1, "type": "doc", "content": [*quoted, *paragraph("The red.")["content"]]}, ANN
    )
    found = (await tracker.fetch_issue(str(issue.id))).comments or ()
    assert [mark_of(comment.body) for comment in found] == ["run-1.comment", None]


async def test_an_empty_comment_is_refused_by_jira(jira: JiraFake, tracker: JiraTracker) -> None:
    with pytest.raises(TrackerError, match="Comment body can not be empty!") as failure:
        await tracker.comment(str(jira.store.add().id), " \n")
    assert failure.value.kind == TrackerError.PAYLOAD
