"""Jira's answers to a search, page by page: all of them, few at a time, and never without an end."""

from __future__ import annotations

import base64
import json
import tracemalloc

import pytest

from sortie.errors import TrackerError
from sortie.trackers.jira import candidates
from sortie.trackers.jira.jira import JiraTracker
from sortie.trackers.jira.records import LARGEST_FLATTENED
from tests import npm
from tests.servers.jira_fake import Exchange, JiraFake, answers

pytestmark = [pytest.mark.anyio, npm.TIME_TO_INSTALL]


async def test_hundreds_of_candidates_come_in_pages(jira: JiraFake, tracker: JiraTracker) -> None:
    for number in range(350):
        jira.store.add(f"Issue {number}", priority=str(number % 5 + 1))
    jira.store.add("Finished", "Done")
    jira.store.add("Elsewhere", project="OTHER")
    found = await tracker.fetch_candidates()
    assert len(found.issues) == 350
    assert found.problems == ()
    assert len(jira.calls("search/jql")) == len(jira.calls()) == 4
    keys = [(issue.priority, issue.created_at) for issue in found.issues]
    assert keys == sorted(keys, key=lambda key: (key[0] or 0, key[1]))


async def test_more_issues_than_are_read_are_not_kept_quiet(jira: JiraFake, tracker: JiraTracker) -> None:
    issues = [jira.store.add() for _ in range(5)]

    def endless(exchange: Exchange) -> None:
        token = base64.b64encode(f"{len(jira.requests)}:0".encode()).decode()
        exchange.answer = {"issues": exchange.answer["issues"], "nextPageToken": token}

    jira.fault("search/jql", endless, times=1000, after=True)
    found = await tracker.fetch_candidates()
    assert len(found.issues) == len(issues)
    assert "more issues than the 100 that were read" in found.problems[0]
    assert "tracker.query_filter" in found.problems[0]
    assert len(jira.calls()) == candidates.MOST_PAGES


async def test_pages_without_an_end_are_an_error(jira: JiraFake, tracker: JiraTracker) -> None:
    jira.fault("search/jql", answers(200, {"issues": [], "nextPageToken": "same"}), times=1000)
    with pytest.raises(TrackerError, match="again and again") as failure:
        await tracker.fetch_candidates()
    assert failure.value.kind == TrackerError.PAYLOAD
    assert len(jira.calls()) == 2


async def test_a_page_that_is_too_large_is_read_in_smaller_ones(jira: JiraFake, tracker: JiraTracker) -> None:
    """Also one with a document nested beyond reason: to take it out of so much would hold up everything else for
    seconds. So a few large issues do not keep all others from being seen."""
    for _ in range(130):
        jira.store.add()

    def nested(exchange: Exchange) -> None:
        deep = b"[" * LARGEST_FLATTENED + b"]" * LARGEST_FLATTENED
        exchange.raw = exchange.content.replace(b'"description": null', b'"description": ' + deep, 1)

    jira.fault("search/jql", answers(200, b" " * (33 * 1024 * 1024)))
    jira.fault("search/jql", nested, after=True)
    assert len((await tracker.fetch_candidates()).issues) == 130
    assert [asked["maxResults"] for _, _, asked in jira.requests] == [100, 20, 4, 100, 100]
    jira.fault("search/jql", nested, times=100, after=True)
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_candidates()
    assert failure.value.kind == TrackerError.PAYLOAD
    assert [asked["maxResults"] for _, _, asked in jira.requests[5:]] == [100, 20, 4, 1]


async def test_pages_are_not_kept_until_all_are_there(jira: JiraFake, tracker: JiraTracker) -> None:
    jira.store.add()
    size = 8 * 1024 * 1024

    def large(exchange: Exchange) -> None:
        token = base64.b64encode(f"{len(jira.requests)}:0".encode()).decode()
        told = {"issues": exchange.answer["issues"], "nextPageToken": token, "pad": "x" * size}
        exchange.raw = json.dumps(told).encode()

    jira.fault("search/jql", large, times=candidates.MOST_PAGES, after=True)
    tracemalloc.start()
    try:
        await tracker.fetch_candidates()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(jira.calls()) == candidates.MOST_PAGES
    assert peak < candidates.MOST_PAGES * size / 2, "those of the server are counted too"
