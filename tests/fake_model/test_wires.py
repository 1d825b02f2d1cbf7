"""Each wire over real HTTP: the prompt's script comes back in the vendor's own spelling, whole and as a stream."""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import closing

import pytest

from . import FakeModel
from .client import DIALECTS, Dialect, connect, post, scripted

STOPS = {
    "anthropic": ("end_turn", "tool_use", "refusal"),
    "responses": ("completed", "completed", "incomplete"),
    "chat": ("stop", "tool_calls", "content_filter"),
    "gemini": ("STOP", "STOP", "SAFETY"),
}
EVENTS_OF_A_CALL = {
    "anthropic": [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ],
    "responses": [
        "response.created",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ],
    "chat": [],
    "gemini": [],
}


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request):
    return request.param


def test_a_text_step_is_said_and_ends_the_turn(model: FakeModel, dialect: Dialect, stream: bool):
    said = dialect.ask(model, scripted({"text": 'döne "q"'}), stream=stream)
    assert (said.text, said.call, said.stop) == ('döne "q"', None, STOPS[dialect.name][0])


def test_a_shell_step_calls_the_shell_of_the_agent(model: FakeModel, dialect: Dialect, stream: bool):
    said = dialect.ask(model, scripted({"shell": "make"}), stream=stream)
    assert said.call == ("Bash", {"command": "make", "description": "Run a command"})
    assert said.stop == STOPS[dialect.name][1]


def test_an_mcp_step_calls_the_tool_whose_name_ends_so(model: FakeModel, dialect: Dialect, stream: bool):
    said = dialect.ask(model, scripted({"mcp": "probe_echo", "args": {"word": "w"}}), stream=stream)
    assert said.call == ("mcp__probe__probe_echo", {"word": "w"})


def test_a_refusal_is_told_in_the_words_of_the_wire(model: FakeModel, dialect: Dialect, stream: bool):
    said = dialect.ask(model, scripted({"text": "no", "stop": "refusal"}), stream=stream)
    assert (said.text, said.stop) == ("no", STOPS[dialect.name][2])


def test_usage_is_counted_as_the_wire_counts(model: FakeModel, dialect: Dialect, stream: bool):
    step = {"text": "x", "usage": {"input": 70, "output": 8, "cached": 30}}
    fresh = 40 if dialect.name == "anthropic" else 70
    assert dialect.ask(model, scripted(step), stream=stream).usage == (fresh, 8, 30)
    assert dialect.ask(model, scripted({"text": "x", "usage": [7, 8]}), stream=stream).usage == (7, 8, 0)


def test_the_tool_results_after_the_last_script_say_which_step_is_next(model: FakeModel, dialect: Dialect):
    first = scripted({"shell": "one"}, {"text": "first done"})
    second = scripted({"shell": "two"}, {"tool": "exact", "args": {"a": 1}}, {"text": "second done"})
    assert dialect.ask(model, first, ["r1"]).text == "first done"
    assert dialect.ask(model, first, ["r1"], second).call == (
        "Bash",
        {"command": "two", "description": "Run a command"},
    )
    assert dialect.ask(model, first, ["r1"], second, ["r2"], "a prompt without one").call == ("exact", {"a": 1})
    assert dialect.ask(model, first, ["r1"], second, ["r2"], ["r3"]).text == "second done"
    assert dialect.ask(model, first, ["r1"], second, ["r2"], ["r3"], ["r4"]).text == "script exhausted"
    assert [request.did for request in model.requests] == ["text", "shell", "tool", "text", "exhausted"]


def test_each_request_is_noted(model: FakeModel, dialect: Dialect):
    dialect.ask(
        model, scripted({"shell": "a"}), scripted({"shell": "b"}, {"text": "c"}), ["the result"], stream=True
    )
    [request] = model.requests
    assert request.wire == dialect.name
    assert request.path == dialect.path(True).partition("?")[0]
    assert (request.model, request.stream, request.tools) == ("m", True, 2)
    assert (request.did, request.step, request.prompts, request.last_result) == ("text", 1, 2, "the result")
    assert (request.key, request.authorised) == ("", True)


def test_a_request_without_tools_gets_ok(model: FakeModel, dialect: Dialect):
    body = dialect.body([scripted({"http": 500})], tools=())
    assert dialect.whole(post(model, dialect.path(False), body).json).text == "ok"


def test_a_prompt_without_a_script_gets_the_fallback(dialect: Dialect):
    with FakeModel() as silent:
        assert dialect.ask(silent, "hello").text == "no script in the prompt"
    with FakeModel(script=[{"shell": "ls"}, {"text": "listed"}]) as model:
        assert dialect.ask(model, "hello <script>alert(1)</script>").call is not None
        assert dialect.ask(model, "hello", ["a file"]).text == "listed"
        assert dialect.ask(model, scripted({"text": "own"})).text == "own"


@pytest.mark.parametrize("dialect", DIALECTS[:2], ids=lambda dialect: dialect.name)
def test_the_events_of_a_stream_have_the_names_of_the_wire(model: FakeModel, dialect: Dialect):
    answer = post(model, dialect.path(True), dialect.body([scripted({"shell": "x"})], True))
    assert answer.names == EVENTS_OF_A_CALL[dialect.name]
    assert answer.headers["Content-Type"] == "text/event-stream"


def test_the_stream_of_chat_ends_with_done(model: FakeModel):
    chat = DIALECTS[2]
    answer = post(model, chat.path(True), chat.body([scripted({"text": "x"})], True))
    assert answer.content.endswith(b"data: [DONE]\n\n")


def test_a_refused_response_is_incomplete_in_all_its_parts(model: FakeModel):
    responses = DIALECTS[1]
    prompt = scripted({"text": "no", "stop": "refusal"})
    last = post(model, responses.path(True), responses.body([prompt], True)).events[-1]
    assert (last["type"], last["response"]["output"][0]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["incomplete_details"] == {"reason": "content_filter"}


def test_a_tool_in_a_namespace_is_called_by_both_names(model: FakeModel):
    body = DIALECTS[1].body([scripted({"mcp": "probe_echo"})])
    body["tools"] = [
        {"type": "namespace", "name": "mcp__probe", "tools": [{"type": "function", "name": "probe_echo"}]}
    ]
    [item] = post(model, "/responses", body).json["output"]
    assert (item["name"], item["namespace"]) == ("probe_echo", "mcp__probe")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/v1/messages/count_tokens", {"input_tokens": 1000}),
        ("/v1beta/models/m:countTokens", {"totalTokens": 1000}),
    ],
)
def test_tokens_are_counted_on_request(model: FakeModel, path: str, answer: object):
    assert post(model, path, {}).json == answer
    assert [request.did for request in model.requests] == ["count"]


def test_one_connection_serves_many_requests_and_methods(model: FakeModel, dialect: Dialect):
    with closing(connect(model)) as connection:
        connection.request("HEAD", "/")
        assert connection.getresponse().read() == b""
        opened = connection.sock
        for stream in (True, False):
            connection.request("POST", dialect.path(stream), json.dumps(dialect.body(["hi"], stream)))
            assert b"no script" in connection.getresponse().read()
        connection.request("GET", "/any/prefix/models")
        assert json.loads(connection.getresponse().read())["data"][0]["id"] == "fake-model"
        assert connection.sock is opened
    assert [request.did for request in model.requests] == ["head", "text", "text", "models"]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", lambda data: zlib.compress(data, wbits=-15))],
    ids=["gzip", "deflate", "bare deflate"],
)
def test_a_compressed_body_is_read(model: FakeModel, encoding: str, pack):
    body = pack(json.dumps(DIALECTS[0].body([scripted({"text": "packed"})])).encode())
    assert post(model, "/v1/messages", body, {"Content-Encoding": encoding}).json["content"][0]["text"] == "packed"


def test_a_body_in_chunks_is_read(model: FakeModel):
    body = json.dumps(DIALECTS[0].body([scripted({"text": "in pieces"})])).encode()
    with closing(connect(model)) as connection:
        for _ in range(2):
            connection.request("POST", "/v1/messages", iter([body[:10], body[10:]]), encode_chunked=True)
            assert json.loads(connection.getresponse().read())["content"][0]["text"] == "in pieces"
