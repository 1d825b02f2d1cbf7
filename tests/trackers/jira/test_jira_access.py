"""A token that ended, or a permission that was taken away, is told as that: no issue counts as gone for it."""

from __future__ import annotations

import pytest

from sortie.errors import TrackerError
from sortie.trackers.jira.jira import JiraTracker
from tests import npm
from tests.servers.jira_fake import JiraFake, answers

from .conftest import MakeTracker
from .test_jira_faults import CALLS, failing

pytestmark = [pytest.mark.anyio, npm.TIME_TO_INSTALL]


@pytest.mark.parametrize("name", CALLS)
async def test_a_token_that_ended_is_no_news_about_issues(jira: JiraFake, tracker: JiraTracker, name: str) -> None:
    jira.store.add()
    jira.is_expired = True
    error = await failing(CALLS[name](tracker))
    assert error.kind == TrackerError.AUTH
    assert error.fix
    jira.is_expired = False
    await CALLS[name](tracker)


@pytest.mark.parametrize("name", CALLS)
async def test_a_project_that_is_hidden_is_no_news_about_issues(
    jira: JiraFake, tracker: JiraTracker, name: str
) -> None:
    jira.store.add()
    jira.is_hidden = True
    error = await failing(CALLS[name](tracker))
    assert (error.kind, "PROJ" in str(error)) == (TrackerError.AUTH, True)
    assert "Browse projects" in error.fix
    jira.is_hidden = False
    await CALLS[name](tracker)


async def test_some_issues_of_many_that_are_missing_are_gone_only_where_the_project_is_seen(
    jira: JiraFake, tracker: JiraTracker
) -> None:
    ids = [str(jira.store.add().id) for _ in range(3)]
    del jira.store.issues[int(ids[0])]
    assert await tracker.fetch_states(ids) == dict.fromkeys(ids[1:], "Todo")
    assert len(jira.calls("GET .*/project/PROJ")) == 1
    assert await tracker.fetch_states(ids) == dict.fromkeys(ids[1:], "Todo")
    assert len(jira.calls("GET .*/project/PROJ")) == 1, "what was seen a moment ago counts"


async def test_that_nothing_is_found_is_believed_only_where_the_project_is_seen(
    jira: JiraFake, tracker: JiraTracker
) -> None:
    """Whoever may see nothing can get an empty answer, as if there were nothing to do."""
    empty = answers(200, {"issues": [], "isLast": True})
    jira.is_hidden = True
    jira.fault("search/jql", empty)
    error = await failing(tracker.fetch_candidates())
    assert (error.kind, "PROJ" in str(error)) == (TrackerError.AUTH, True)
    jira.is_hidden = False
    assert (await tracker.fetch_candidates()).issues == ()


async def test_where_the_project_cannot_be_asked_nothing_is_gone(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    del jira.store.issues[issue.id]
    jira.fault("GET .*/project/PROJ", answers(503), times=100)
    for call in (tracker.fetch_states([str(issue.id)]), tracker.fetch_issue(str(issue.id))):
        assert (await failing(call)).kind == TrackerError.API


async def test_a_project_that_got_another_key_takes_no_issue_away(jira: JiraFake, make: MakeTracker) -> None:
    tracker = make()
    issue = jira.store.add()
    jira.store.to_project(issue, "NEW")
    jira.store.projects = {"NEW": False}
    jira.store.renamed["PROJ"] = "NEW"
    for call in (tracker.fetch_states([str(issue.id)]), tracker.fetch_issue(str(issue.id))):
        error = await failing(call)
        assert (error.kind, "NEW" in error.message) == (TrackerError.AUTH, True)


async def test_doctor_says_so(jira: JiraFake, tracker: JiraTracker) -> None:
    jira.is_expired = True
    ((verdict, name),) = [(found.verdict, found.name) for found in await tracker.examine()]
    assert (verdict, name) == ("FAIL", "access")
