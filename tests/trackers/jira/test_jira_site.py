"""The Jira site of these tests watches over us: what Atlassian's descriptions do not allow is noticed."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests import npm
from tests.servers.api_schema import ApiSchema
from tests.servers.jira_fake import KEY, JiraFake, expected_authorization
from tests.servers.jira_schema import document_validator

from .conftest import schema

pytestmark = npm.TIME_TO_INSTALL

SEARCH = {"jql": 'project = "PROJ"', "fields": ["status"]}


@pytest.fixture(autouse=True)
def _descriptions() -> None:
    """Here, and only here, it is said aloud where Atlassian's descriptions are missing."""
    ApiSchema.need("jira-rest-v3.json")
    try:
        document_validator()
    except npm.NotInstalled as problem:
        npm.not_tested(problem)


def asked(fake: JiraFake, method: str, path: str, body: Any = None, key: str = KEY) -> httpx2.Response:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": expected_authorization(key), "Content-Type": "application/json"}
    return httpx2.request(method, f"{fake.url}/rest/api/3/{path}", content=content, headers=headers)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "search/jql", {**SEARCH, "startAt": 0}),
        ("POST", "search/jql", {**SEARCH, "reconcileIssues": ["PROJ-1"]}),
        ("POST", "issue/bulkfetch", {"fields": ["status"], "issueIdsOrKeys": [10001]}),
        ("POST", "issue/10001/comment", {"body": "just text"}),
        (
            "POST",
            "issue/10001/comment",
            {"body": {"version": 1, "type": "doc", "content": [{"type": "text", "text": "x"}]}},
        ),
        ("POST", "issue/10001/transitions", {"transition": "11"}),
        ("POST", "issue/10001/transitions", {"transition": {"id": "11"}, "feilds": {}}),
        ("GET", "issue/10001/comment?orderBy=updated", None),
        ("GET", "issue/10001/comment?startsAt=100&max=3", None),
        ("GET", "no/such/path", None),
    ],
)
def test_a_request_that_breaks_the_description_is_noticed(method: str, path: str, body: Any) -> None:
    with JiraFake(schema()).running() as fake:
        fake.store.add()
        asked(fake, method, path, body)
    assert fake.problems


def test_an_answer_that_breaks_the_description_is_noticed() -> None:
    with JiraFake(schema()).running() as fake:
        fake.store.add(description={"version": 1, "type": "doc", "content": [{"type": "nonsense"}]})
        asked(fake, "GET", "issue/10001?fields=summary,description")
    assert "nonsense" in fake.problems[0]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("ORDER BY created", "Unbounded"),
        ('project = "NOPE"', "The value 'NOPE' does not exist"),
        ('colour = "red"', "Field 'colour' does not exist"),
        ('project = "PROJ" AND', "ends too early"),
        ('project = "PROJ" status = Todo', "Expecting operator"),
        ('project ~ "PROJ"', "operator"),
        ('project = "PROJ', "reserved JQL character"),
    ],
)
def test_a_question_that_it_does_not_understand_is_refused(question: str, words: str) -> None:
    with JiraFake(schema()).running() as fake:
        answer = asked(fake, "POST", "search/jql", {**SEARCH, "jql": question})
    assert (answer.status_code, fake.problems) == (400, [])
    assert words in answer.json()["errorMessages"][0]


def test_who_has_no_key_gets_nothing() -> None:
    with JiraFake(schema()).running() as fake:
        assert asked(fake, "GET", "myself", key="somebody:else").status_code == 401
        assert asked(fake, "GET", "myself").status_code == 200
