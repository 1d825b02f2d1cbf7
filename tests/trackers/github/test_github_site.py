"""The GitHub of these tests watches over us: what GitHub's description of its API does not allow is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests import npm
from tests.servers.api_schema import ApiSchema
from tests.servers.emulate import REPOSITORY
from tests.servers.fault_proxy import Answer, FaultProxy
from tests.servers.github_overlay import GitHubOverlay
from tests.servers.github_scene import emulate
from tests.servers.github_schema import GitHubSchema, app_description

pytestmark = npm.TIME_TO_INSTALL

ISSUES = f"/repos/{REPOSITORY}/issues"


@pytest.fixture(autouse=True)
def _description() -> None:
    """Here, and only here, it is said aloud where GitHub's description is missing."""
    ApiSchema.need("github-rest.json")
    try:
        app_description()
    except npm.NotInstalled as problem:
        npm.not_tested(problem)


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    """One that a test may leave with problems."""
    try:
        behind = emulate()
    except npm.NotInstalled as problem:
        npm.not_tested(problem)
    behind.reset()
    with FaultProxy.running(behind.url, GitHubOverlay(behind), GitHubSchema()) as made:
        yield made


def ask(server: FaultProxy, method: str, path: str, body: Any = None) -> httpx2.Response:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer t", "Content-Type": "application/json"}
    return httpx2.request(method, f"{server.url}{path}", content=content, headers=headers)


def test_what_keeps_to_the_description_is_no_problem(server: FaultProxy) -> None:
    ask(server, "POST", ISSUES, {"title": "Paint it", "labels": ["todo"]})
    ask(server, "GET", f"{ISSUES}?labels=todo&state=open&per_page=100")
    ask(server, "POST", f"{ISSUES}/1/comments", {"body": "Blue"})
    assert server.problems == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{ISSUES}?state=opened", None),
        ("POST", f"{ISSUES}/1/comments", {"text": "Blue"}),
        ("POST", f"{ISSUES}/1/labels", {"labels": [1]}),
        ("PATCH", f"{ISSUES}/1", {"state": "done"}),
        ("GET", f"{ISSUES}?labelz=todo&per_pag=100", None),
        ("PATCH", f"{ISSUES}/1", {"state": "closed", "state_reson": "not_planned"}),
        ("POST", f"{ISSUES}/1/labels", {"labels": ["todo"], "lables": ["done"]}),
        ("POST", "/app/installations/77/access_tokens", {"repository_ids": ["hello"]}),
        ("POST", "/app/installations/77/access_tokens", {"repositorys": ["hello"]}),
        ("GET", "/no/such/path", None),
    ],
)
def test_a_request_that_breaks_the_description_is_noticed(
    server: FaultProxy, method: str, path: str, body: Any
) -> None:
    ask(server, "POST", ISSUES, {"title": "Paint it"})
    ask(server, method, path, body)
    assert server.problems


def test_an_answer_that_breaks_the_description_is_noticed(server: FaultProxy) -> None:
    refusal = Answer(422, b'{"message": 1}', {"content-type": "application/json"})
    server.fail(f"GET {ISSUES}", refusal)
    ask(server, "GET", ISSUES)
    assert server.problems
