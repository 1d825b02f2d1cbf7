"""The key: whoever shows another one is refused in the words of the wire, and no key is ever written down."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from . import FakeModel
from .client import DIALECTS, Dialect, connect, post, scripted

KEY = "right-key-7f3a"
WAYS = {
    "x-api-key": lambda key: ({"x-api-key": key}, ""),
    "bearer": lambda key: ({"Authorization": f"Bearer {key}"}, ""),
    "x-goog-api-key": lambda key: ({"x-goog-api-key": key}, ""),
    "query": lambda key: ({}, f"key={key}"),
}
REFUSALS: dict[str, dict[str, object]] = {
    "anthropic": {"type": "authentication_error"},
    "responses": {"type": "invalid_request_error", "code": "invalid_api_key"},
    "chat": {"type": "invalid_request_error", "code": "invalid_api_key"},
    "gemini": {"code": 401, "status": "UNAUTHENTICATED"},
}


@pytest.fixture
def locked(tmp_path):
    with FakeModel(key=KEY, log=tmp_path / "requests.jsonl") as model:
        yield model


def show(model: FakeModel, dialect: Dialect, key: str, way: str):
    headers, query = WAYS[way](key)
    path = dialect.path(False)
    return post(
        model, f"{path}{'&' if '?' in path else '?'}{query}", dialect.body([scripted({"text": "in"})]), headers
    )


@pytest.mark.parametrize("way", WAYS)
def test_the_right_key_opens_and_another_does_not(locked: FakeModel, dialect: Dialect, way: str):
    assert dialect.whole(show(locked, dialect, KEY, way).json).text == "in"
    refused = show(locked, dialect, "wrong", way)
    assert refused.status == 401
    assert refused.json["error"].items() >= REFUSALS[dialect.name].items()
    right, wrong = locked.requests
    assert (right.authorised, right.did) == (True, "text")
    assert (wrong.authorised, wrong.did, wrong.step) == (False, "unauthorised", -1)
    assert right.key != wrong.key


def test_no_key_at_all_is_refused(locked: FakeModel, dialect: Dialect):
    assert post(locked, dialect.path(False), dialect.body(["hi"])).status == 401
    assert locked.requests[0].key == ""


def test_every_key_shown_must_be_right(locked: FakeModel):
    headers = {"x-api-key": KEY, "Authorization": "Bearer stale"}
    assert post(locked, "/v1/messages", DIALECTS[0].body(["hi"]), headers).status == 401


def test_a_refusal_spends_no_fault(locked: FakeModel):
    chat = DIALECTS[2]
    body = chat.body([scripted({"http": 500, "times": 1}, {"text": "x"})])
    assert post(locked, chat.path(False), body).status == 401
    assert post(locked, chat.path(False), body, {"x-api-key": KEY}).status == 500


def test_the_list_of_models_wants_the_key_too(locked: FakeModel):
    with closing(connect(locked)) as connection:
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {KEY}"}, 200)):
            connection.request("GET", "/v1/models", headers=headers)
            response = connection.getresponse()
            response.read()
            assert response.status == status


def test_without_a_key_of_its_own_anything_passes(model: FakeModel, dialect: Dialect):
    assert show(model, dialect, "anything", "bearer").status == 200
    assert model.requests[0].authorised


@pytest.mark.parametrize("way", WAYS)
def test_a_key_is_never_written_down(locked: FakeModel, dialect: Dialect, way: str, tmp_path):
    show(locked, dialect, KEY, way)
    show(locked, dialect, "wrong-key-8b1c", way)
    logged = (tmp_path / "requests.jsonl").read_text()
    assert [json.loads(line)["authorised"] for line in logged.splitlines()] == [True, False]
    for text in (logged, repr(locked.requests)):
        assert KEY not in text
        assert "wrong-key" not in text
