"""Faults: each comes as often as the script says, and none outlives the server."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import closing

import pytest

from . import FakeModel
from .client import DIALECTS, Dialect, connect, post, scripted, wait_for

LONG = 3600


def failing(model: FakeModel, dialect: Dialect, *steps, stream=False):
    return post(model, dialect.path(stream), dialect.body([scripted(*steps)], stream))


def begin(connection: http.client.HTTPConnection, dialect: Dialect, *steps, stream: bool):
    body = json.dumps(dialect.body([scripted(*steps)], stream))
    connection.request("POST", dialect.path(stream), body)


def message_of(body):
    return body["error"]["message"]


def test_a_status_comes_as_often_as_said_and_then_the_next_step(model: FakeModel, dialect: Dialect):
    steps = (
        {"http": 429, "times": 2, "headers": {"retry-after": "1"}, "message": "slow down"},
        {"text": "at last"},
    )
    for _ in range(2):
        answer = failing(model, dialect, *steps)
        assert (answer.status, answer.headers["retry-after"], message_of(answer.json)) == (429, "1", "slow down")
    assert dialect.whole(failing(model, dialect, *steps).json).text == "at last"
    assert [(request.did, request.step) for request in model.requests] == [("http", 0), ("http", 0), ("text", 1)]


def test_a_status_without_times_comes_always(model: FakeModel, dialect: Dialect):
    answers = [failing(model, dialect, {"http": 500}, {"text": "never"}) for _ in range(3)]
    assert [(answer.status, message_of(answer.json)) for answer in answers] == [(500, "scripted 500")] * 3


def test_a_fault_may_come_between_two_steps(model: FakeModel, dialect: Dialect):
    prompt = scripted({"shell": "x"}, {"http": 503, "times": 1}, {"text": "done"})
    assert dialect.ask(model, prompt).call is not None
    assert post(model, dialect.path(False), dialect.body([prompt, ["result"]])).status == 503
    assert dialect.ask(model, prompt, ["result"]).text == "done"


def test_an_id_keeps_the_counts_of_equal_scripts_apart(model: FakeModel):
    chat = DIALECTS[2]
    assert failing(model, chat, {"http": 500, "times": 1, "id": "a"}, {"text": "x"}).status == 500
    assert failing(model, chat, {"http": 500, "times": 1, "id": "b"}, {"text": "x"}).status == 500
    assert failing(model, chat, {"http": 500, "times": 1, "id": "a"}, {"text": "x"}).status == 200


def test_a_body_of_the_script_takes_the_place_of_the_usual_one(model: FakeModel, dialect: Dialect):
    assert failing(model, dialect, {"http": 400, "body": {"own": 1}}).json == {"own": 1}
    assert failing(model, dialect, {"http": 400, "body": {}}).json == {}


@pytest.mark.parametrize(
    ("dialect", "kind"),
    list(zip(DIALECTS, ["rate_limit_error", "requests", "requests", None], strict=True)),
    ids=lambda value: getattr(value, "name", value),
)
def test_a_failure_is_told_in_the_words_of_the_wire(model: FakeModel, dialect: Dialect, kind: str | None):
    error = failing(model, dialect, {"http": 429}).json["error"]
    assert error.get("type") == kind
    if kind is None:
        assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")


def test_a_stream_dropped_has_its_first_event_and_no_end(model: FakeModel, dialect: Dialect):
    with pytest.raises(http.client.IncompleteRead) as broken:
        failing(model, dialect, {"drop": True}, stream=True)
    assert broken.value.partial.count(b"data: ") == 1
    for end in (b"message_stop", b"response.completed", b"[DONE]", b"finishReason"):
        assert end not in broken.value.partial


def test_a_whole_answer_dropped_is_cut_in_its_middle(model: FakeModel, dialect: Dialect):
    with pytest.raises(http.client.IncompleteRead) as broken:
        failing(model, dialect, {"drop": True})
    with pytest.raises(ValueError):
        json.loads(broken.value.partial)


def test_a_drop_that_is_spent_gives_way(model: FakeModel, dialect: Dialect):
    with pytest.raises(http.client.IncompleteRead):
        failing(model, dialect, {"drop": True, "times": 1}, {"text": "whole"}, stream=True)
    answer = failing(model, dialect, {"drop": True, "times": 1}, {"text": "whole"}, stream=True)
    assert dialect.streamed(answer.events).text == "whole"


def test_a_short_hang_ends_with_a_closed_connection(model: FakeModel, dialect: Dialect):
    with pytest.raises(http.client.RemoteDisconnected):
        failing(model, dialect, {"hang": 0})


def test_a_sleep_comes_before_the_step(model: FakeModel, dialect: Dialect):
    assert dialect.ask(model, scripted({"sleep": 0.01, "text": "slow"})).text == "slow"


def test_a_stall_is_silent_after_the_first_event_until_the_server_stops(dialect: Dialect):
    with FakeModel() as model, closing(connect(model)) as connection:
        begin(connection, dialect, {"stall": LONG}, stream=True)
        response = connection.getresponse()
        assert response.readline().startswith((b"event: ", b"data: "))
        model.__exit__(None, None, None)
        with pytest.raises(http.client.IncompleteRead) as broken:
            response.read()
        assert broken.value.partial.count(b"data: ") <= 1


@pytest.mark.parametrize("step", [{"hang": LONG}, {"sleep": LONG, "text": "never"}, {"sleep": LONG, "http": 500}])
def test_whatever_waits_ends_when_the_server_stops(dialect: Dialect, step):
    with FakeModel() as model, closing(connect(model)) as connection:
        begin(connection, dialect, step, stream=True)
        wait_for(lambda: model.requests)
        model.__exit__(None, None, None)
        with pytest.raises(http.client.RemoteDisconnected):
            connection.getresponse()


def test_nothing_is_left_of_a_server_that_stopped_with_an_idle_connection():
    before = set(threading.enumerate())
    with FakeModel() as model, closing(connect(model)) as connection:
        connection.request("HEAD", "/")
        connection.getresponse().read()
        model.__exit__(None, None, None)
        assert connection.sock.recv(1) == b""
    assert set(threading.enumerate()) <= before
