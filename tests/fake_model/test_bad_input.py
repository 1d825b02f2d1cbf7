"""Bad input is normal: an error answer or a closed connection, no word on standard error, the server goes on."""

from __future__ import annotations

import gzip
import http.client
import json
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import FakeModel, ScriptError
from .bodies import LIMIT
from .client import DEADLINE, DIALECTS, Dialect, post, scripted

PATHS = [dialect.path(stream) for dialect in DIALECTS for stream in (False, True)]
WORDS = [
    *("messages", "input", "contents", "parts", "content", "role", "user", "tool", "text", "type", "tool_result"),
    *("functionResponse", "response", "output", "tools", "function", "functionDeclarations", "namespace", "name"),
    *("model", "stream", "function_call_output", scripted({"shell": "x"}), "<script>[1]</script>"),
]
words = st.sampled_from(WORDS)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def model(capfd):
    with FakeModel() as model:
        yield model
        assert DIALECTS[0].ask(model, scripted({"text": "alive"})).text == "alive"
    assert capfd.readouterr().err == ""


def raw(model: FakeModel, sent: bytes, answers: bool = True) -> bytes:
    with socket.create_connection(("127.0.0.1", model.port), timeout=DEADLINE) as connection:
        connection.sendall(sent)
        if not answers:
            return b""
        received = b""
        try:
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                received += data
        except OSError:
            pass  # The server closed before it had read everything.
        return received


@few
@given(body=values, path=st.sampled_from(PATHS))
def test_parts_of_any_type_get_an_answer(model: FakeModel, body: object, path: str):
    assert post(model, path, json.dumps(body).encode()).status in (200, 400)


@few
@given(body=st.binary(max_size=200), path=st.sampled_from(PATHS))
def test_bytes_that_are_not_json_are_refused(model: FakeModel, body: bytes, path: str):
    assert post(model, path, b"\xff" + body).status == 400


@few
@given(body=st.binary(max_size=100), encoding=st.sampled_from(["gzip", "deflate"]))
def test_bytes_that_are_not_compressed_are_refused(model: FakeModel, body: bytes, encoding: str):
    assert post(model, "/v1/messages", body, {"Content-Encoding": encoding}).status == 400


@few
@given(sent=st.binary(max_size=300))
def test_what_is_not_http_ends_its_connection_only(model: FakeModel, sent: bytes):
    raw(model, sent)


@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize(
    "wrap", ['{{"messages": {}}}', '{{"contents": [{{"parts": [{{"functionResponse": {{"response": {}}}}}]}}]}}']
)
def test_deep_nesting_gets_an_answer(model: FakeModel, depth: int, wrap: str):
    nested = wrap.format("[" * depth + "]" * depth).encode()
    assert post(model, "/v1beta/models/m:generateContent", nested).status in (200, 400)
    assert post(model, "/v1/messages", nested).status in (200, 400)


def test_deep_nesting_inside_a_script_gets_an_answer(model: FakeModel, dialect: Dialect):
    prompt = "<script>" + "[" * 100_000 + "]" * 100_000 + "</script>"
    assert post(model, dialect.path(False), dialect.body([prompt])).status == 400


def test_a_wrong_step_is_explained_to_the_agent(model: FakeModel, dialect: Dialect):
    answer = post(model, dialect.path(True), dialect.body([scripted({"text": "a"}, {"txt": "b"})], True))
    assert answer.status == 400
    assert "step 2 of the script: must have exactly one of" in answer.json["error"]["message"]
    assert [request.did for request in model.requests] == ["bad"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Content-Length: many", 400),
        (b"Content-Length: -1", 400),
        (b"Content-Length: %d" % (LIMIT + 1), 413),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (LIMIT + 1), 413),
        (b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"Content-Length: 1\r\nContent-Encoding: zstd\r\n\r\nx", 415),
        (b"X: no body", 400),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(model: FakeModel, head: bytes, status: int):
    received = raw(model, b"POST /v1/messages HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert b"Connection: close" in received


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused(model: FakeModel):
    bomb = gzip.compress(b" " * (LIMIT + 1), compresslevel=1)
    assert post(model, "/v1/messages", bomb, {"Content-Encoding": "gzip"}).status == 413


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/messages HTTP/1.1\r\nContent-Length: 100\r\n\r\n{",
        b"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"",
    ],
)
def test_a_client_that_leaves_in_the_middle_gets_nothing(model: FakeModel, sent: bytes):
    assert raw(model, sent) == b""


def test_a_client_that_leaves_before_its_answer_harms_nobody(model: FakeModel):
    body = json.dumps(DIALECTS[0].body([scripted({"sleep": 0.05, "text": "x" * 5_000_000})], True)).encode()
    head = b"POST /v1/messages HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(5):
        raw(model, head + body, answers=False)


def test_an_unknown_place_or_method_is_refused_and_the_connection_lives(model: FakeModel):
    assert post(model, "/v1/embeddings", {}).status == 404
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=DEADLINE)
    for method, status in (("GET", 404), ("DELETE", 501)):
        connection.request(method, "//[strange?key=%ff")
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


def test_a_fallback_script_with_a_mistake_is_refused_at_once():
    with pytest.raises(ScriptError, match="step 1"):
        FakeModel(script=[{"say": "x"}])
