"""Bad requests are normal requests: every route with every method, wrong types, huge and slow bodies, garbage."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sortie.web.api_v2_operations import OPERATIONS
from sortie.web.bodies import MOST_BYTES
from sortie.web.operation import Operation
from sortie.web.tokens import new_token

from .api_scene import ENDED_RUN, busy_server
from .live_server import DEADLINE, Answer, LiveServer

ROOT = "/api/v2"
NAMES = {"{identifier}": "D-1", "{run_id}": ENDED_RUN, "{id}": "1", "{task}": "one"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")

# Requests go to a real server, and each test has its own data: nothing is kept between examples that matters.
GARBAGE = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def headers(server: LiveServer) -> dict[str, str]:
    token = new_token(server.site.database, "operate")
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def addresses() -> list[str]:
    found = []
    for path in dict.fromkeys(operation.path for operation in OPERATIONS):
        for placeholder, name in NAMES.items():
            path = path.replace(placeholder, name)
        found.append(path)
    return found


def error_of(answer: Answer) -> tuple[int, str]:
    error = answer.json["error"]
    assert error.keys() == {"code", "message"}
    assert error["message"]
    return answer.status, error["code"]


@pytest.mark.parametrize("address", [*addresses(), "/openapi.json"])
def test_every_route_answers_its_own_methods_and_refuses_all_others_by_name(server, headers, address):
    own = "POST" if address == "/commands" else "GET"
    for method in METHODS:
        if method == own or (method == "HEAD" and own == "GET"):
            assert server.request(method, ROOT + address, headers).status not in (405, 500)
            continue
        answer = server.request(method, ROOT + address, headers, b"{}")
        assert (answer.status, answer.headers["allow"]) == (405, own)
        assert method == "HEAD" or error_of(answer) == (405, "method_not_allowed")


def test_an_address_that_there_is_not_is_not_found(server):
    for address in ("", "/", "/nothing", "/runs/x/y/z/log/more", "/plans/nothing"):
        assert server.get(ROOT + address).status == 404


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b"[" * 100_000, 400, "invalid_json"),
        (b'{"verb": "\\ud800"}', 400, "invalid_json"),
        (b"[]", 422, "invalid_body"),
        (b"{}", 422, "invalid_body"),
        (b'{"verb": 7, "issue": "D-1"}', 422, "invalid_body"),
        (b'{"verb": "explode", "issue": "D-1"}', 422, "invalid_body"),
        (b'{"verb": "fix", "issue": "D-1"}', 422, "invalid_body"),
        (b'{"verb": "stop"}', 422, "invalid_body"),
        (b'{"verb": "stop", "issue": "D-1", "colour": "red"}', 422, "invalid_body"),
        (b'{"verb": "stop", "issue": "D-1", "text": "x"}', 422, "invalid_body"),
        (b'{"verb": "answer", "issue": "D-1", "text": " "}', 422, "invalid_body"),
        (b'{"verb": "refresh", "issue": "D-1"}', 422, "invalid_body"),
        (json.dumps({"verb": "stop", "issue": "x" * 1001}).encode(), 422, "invalid_body"),
        (json.dumps({"verb": "answer", "issue": "D-1", "text": "x" * MOST_BYTES}).encode(), 413, "too_large"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_bad_body_is_refused_and_nothing_is_asked_of_the_service(server, headers, body, status, code):
    assert error_of(server.request("POST", f"{ROOT}/commands", headers, body)) == (status, code)
    with server.site.looking() as db:
        assert db.execute("SELECT count(*) FROM commands").fetchone() == (0,)


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "\xff"]
)
def test_a_body_of_another_kind_is_refused(server, headers, kind):
    answer = server.request("POST", f"{ROOT}/commands", {**headers, "Content-Type": kind}, b'{"verb": "refresh"}')
    assert error_of(answer) == (415, "unsupported_media_type")


@pytest.mark.parametrize("wait", ["-1", "6", "nan", "inf", "1e999", "soon", ""])
def test_a_wait_that_is_none_is_refused(server, headers, wait):
    answer = server.request("POST", f"{ROOT}/commands?wait={wait}", headers, b'{"verb": "refresh"}')
    assert error_of(answer) == (400, "invalid_parameter")


def test_a_body_that_never_comes_holds_up_nobody_else(server, headers):
    head = f"POST {ROOT}/commands HTTP/1.1\r\nHost: {server.authority}\r\nContent-Length: 100\r\n"
    slow = []
    try:
        for _ in range(50):
            connection = socket.create_connection((server.host, server.port), timeout=DEADLINE)
            slow.append(connection)
            sent = [head, *(f"{name}: {value}\r\n" for name, value in headers.items()), '\r\n{"verb"']
            connection.sendall("".join(sent).encode())
        assert server.get(f"{ROOT}/inbox").status == 200
    finally:
        for connection in slow:
            connection.close()


def reading() -> list[Operation]:
    return [operation for operation in OPERATIONS if operation.method == "GET"]


def an_address(operation: Operation, names: list[str], given: dict[str, str]) -> str:
    path = operation.path
    for placeholder in NAMES:
        if placeholder in path:
            path = path.replace(placeholder, quote(names.pop(), safe="") or "x")
    return f"{ROOT}{path}?{urlencode(given)}"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES = st.one_of(TEXTS, st.integers().map(str), st.floats().map(str), st.sampled_from(["true", "D-1", "1.1", ""]))


@GARBAGE
@given(st.data())
def test_garbage_in_addresses_and_parameters_is_never_a_failure_of_ours(server, data):
    operation = data.draw(st.sampled_from(reading()))
    known = st.sampled_from([*operation.query.__struct_encode_fields__, "unknown"])
    parameters = data.draw(st.dictionaries(st.one_of(known, TEXTS), VALUES, max_size=4))
    address = an_address(operation, data.draw(st.lists(TEXTS, min_size=2, max_size=2)), parameters)
    answer = server.get(address)
    assert answer.status in (200, 400, 404), f"{address}: {answer.text}"
    assert answer.status == 200 or error_of(answer)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
COMMANDS = st.fixed_dictionaries(
    {},
    optional={
        "verb": st.one_of(JSON, st.sampled_from(["stop", "answer", "retry"])),
        "issue": st.one_of(JSON, TEXTS),
        "text": st.one_of(JSON, TEXTS),
    },
)


@GARBAGE
@given(
    st.one_of(
        st.binary(max_size=200),
        JSON.map(lambda value: json.dumps(value).encode()),
        COMMANDS.map(lambda value: json.dumps(value).encode()),
    )
)
@example(b'{"verb": "answer", "issue": "\\u0000", "text": "\\u0000"}')
@example(b'{"verb": "retry", "issue": ""}')
def test_garbage_as_a_command_is_never_a_failure_of_ours(garbled, body):
    server, headers = garbled
    answer = server.request("POST", f"{ROOT}/commands", headers, body)
    assert answer.status in (202, 400, 422), answer.text


@pytest.fixture(scope="module")
def garbled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, dict[str, str]]]:
    """A store of its own: some of the garbage is a command."""
    with busy_server(tmp_path_factory.mktemp("garbled")) as started:
        token = new_token(started.site.database, "operate")
        yield started, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
