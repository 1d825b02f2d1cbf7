"""A Jira site for each test: whatever broke Atlassian's descriptions fails the test that caused it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from sortie.trackers.jira.jira import JiraTracker
from sortie.trackers.tracker import TrackerSettings
from tests.servers.jira_fake import KEY, JiraFake
from tests.servers.jira_schema import JiraSchema


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@functools.cache
def schema() -> JiraSchema:
    return JiraSchema()


@pytest.fixture
def jira() -> Iterator[JiraFake]:
    with JiraFake(schema()).running() as fake:
        yield fake
    assert fake.problems == []


def settings(endpoint: str, **more: Any) -> TrackerSettings:
    usual: dict[str, Any] = {
        "kind": "jira",
        "active_states": ("Todo", "In Progress"),
        "terminal_states": ("Done",),
        "endpoint": endpoint,
        "api_key": KEY,
        "project": "PROJ",
        "calls_per_minute": 10_000,
    }
    return TrackerSettings(**{**usual, **more})


MakeTracker = Callable[..., JiraTracker]


@pytest.fixture
async def make(jira: JiraFake) -> AsyncIterator[MakeTracker]:
    """Trackers of the site, with settings of the test over the usual ones."""
    made: list[JiraTracker] = []

    def tracker(**more: Any) -> JiraTracker:
        made.append(JiraTracker.from_settings(settings(more.pop("endpoint", jira.url), **more)))
        return made[-1]

    yield tracker
    for each in made:
        await each.aclose()


@pytest.fixture
def tracker(make: MakeTracker) -> JiraTracker:
    return make()
