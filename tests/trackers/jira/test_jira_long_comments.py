"""Long comments in Jira: bounded, and read however large a page of them is."""

from __future__ import annotations

import pytest

from sortie.trackers.jira.jira import JiraTracker
from sortie.trackers.long_comments import LONGEST_KEPT
from tests.servers.jira_fake import JiraFake, answers
from tests.servers.jira_store import ANN

pytestmark = pytest.mark.anyio


async def test_a_long_comment_is_bounded(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    jira.store.comment(issue, "x" * 30_000, ANN)
    (comment,) = (await tracker.fetch_issue(str(issue.id))).comments or ()
    assert len(comment.body) == LONGEST_KEPT and "[The rest of its 30,000 characters is left out" in comment.body


async def test_a_page_that_is_too_large_is_read_in_smaller_ones(jira: JiraFake, tracker: JiraTracker) -> None:
    issue = jira.store.add()
    for number in range(130):
        jira.store.comment(issue, f"number {number}", ANN)
    for where in ("comment.*startAt=0&maxResults=100", "comment.*startAt=0&maxResults=20"):
        jira.fault(where, answers(200, b" " * (33 * 1024 * 1024)))
    found = (await tracker.fetch_issue(str(issue.id))).comments or ()
    assert [comment.body for comment in found] == [f"number {number}" for number in range(130)]
    assert len(jira.calls("/comment")) == 5
