"""What the server answers where there is nothing, or something is wrong; and clients that are not waited for."""

from __future__ import annotations

import http.client
import logging
import select
import socket
import time
from contextlib import ExitStack

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sortie.web.connection import BoundedConnection
from sortie.web.server import configured
from sortie.web.site import Site

from .live_server import DEADLINE, WORKFLOW, new_store, served, serving

HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(new_store(tmp_path_factory.mktemp("answers") / "store.db"), read_only=True) as started:
        yield started


@pytest.fixture
def site(tmp_path):
    (tmp_path / "WORKFLOW.md").write_text(WORKFLOW)
    return Site(new_store(tmp_path / "store.db"), tmp_path / "WORKFLOW.md", read_only=True)


def test_an_address_where_nothing_is_gives_a_page_to_people_and_an_error_to_programs(server):
    page = server.request("GET", "/no/such/page", HTML)
    assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is nothing at this address." in page.text
    error = server.request("GET", "/api/v2/no/such/thing")
    assert (error.status, error.headers["content-type"]) == (404, "application/json; charset=utf-8")
    assert set(error.json) == {"error"} and set(error.json["error"]) == {"code", "message"}


def test_a_method_that_an_address_does_not_know_is_refused_with_those_that_it_does(server):
    for path in ("/", "/api/v1/state", "/livez"):
        answer = server.request("OPTIONS", path)
        assert answer.status == 405, path
        assert "GET" in answer.headers["allow"], path


@pytest.mark.parametrize("path", ["/boom", "/api/v2/boom"])
def test_a_handler_that_fails_is_a_sentence_to_the_client_and_a_traceback_to_us(site, caplog, path):
    def boom(_request: Request) -> Response:
        raise RuntimeError("what nobody needs to know")

    config = configured(site)
    config.app.router.routes.insert(0, Route(path, boom))  # type: ignore[union-attr]
    with serving(site, config) as server:
        answer = server.request("GET", path, HTML)
        assert answer.status == 500
        assert "nobody needs to know" not in answer.text and "Traceback" not in answer.text
        assert server.get("/livez").status == 200
    assert "what nobody needs to know" in caplog.text
    assert "Traceback" in caplog.text


def test_a_store_that_is_not_there_or_is_none_is_a_sentence(tmp_path):
    missing = tmp_path / "store.db"
    with served(missing) as server:
        for path in ("/", "/api/v2/runs"):
            answer = server.request("GET", path, HTML)
            assert (answer.status, "Traceback" in answer.text) == (503, False), path
        missing.write_text("no database, and long enough to be looked at " * 50)
        assert server.request("GET", "/", HTML).status == 503
        missing.unlink()
        new_store(missing)
        assert server.request("GET", "/", HTML).status == 200, "it comes back with the store"


def test_no_answer_says_what_we_are_made_of(server):
    assert "server" not in server.get("/livez").headers


class Impatient(BoundedConnection):
    most_connections = 20
    head_within = 0.3
    read_within = 0.3


@pytest.fixture
def impatient(site):
    config = configured(site)
    config.http = Impatient
    config.app.router.routes.insert(0, Route("/long", lambda _: Response(b"x" * 50_000_000)))  # type: ignore[union-attr]
    config.app.router.routes.insert(0, Route("/slow", slow))  # type: ignore[union-attr]
    with serving(site, config) as server:
        yield server


def slow(_request: Request) -> Response:
    time.sleep(3 * Impatient.head_within)  # a handler that takes its time, not a test that waits
    return Response(b"done")


def closed(connection: socket.socket) -> bool:
    """Whether the other side has ended it, however it did."""
    connection.settimeout(DEADLINE)
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"y" * 100_000,
        b"\r\n" * 50 + b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nxyz",
    ],
    ids=["tls", "endless-header", "nonsense", "version", "two-lengths"],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(impatient, data):
    answer = impatient.raw(data)
    assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 421", b""), answer[:100]
    assert impatient.get("/livez").status == 200


@pytest.mark.parametrize("path", ["/api/v2/events/stream", "/livez", "/api/v1/refresh"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nonsense_that_follows_a_request_ends_the_connection_and_is_nobodys_fault(impatient, caplog, method, path):
    """Whether its answer has begun, is over, or waits for the rest of the request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: {impatient.authority}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection((impatient.host, impatient.port), timeout=DEADLINE) as connection:
        connection.sendall(head.encode())
        if (method, path) != ("POST", "/api/v1/refresh"):
            assert connection.recv(12).startswith(b"HTTP/1.1 ")
        connection.sendall(b"no length\r\n")
        assert closed(connection)
    assert impatient.get("/livez").status == 200
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_nor_is_nonsense_that_comes_at_once(impatient, caplog, method):
    head = f"{method} /livez HTTP/1.1\r\nHost: {impatient.authority}\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert impatient.raw(head.encode() + b"no length\r\n").startswith(b"HTTP/1.1 400 ")
    assert impatient.get("/livez").status == 200
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("begun", [b"", b"GET /livez HTT", b"GET /livez HTTP/1.1\r\nHost: x\r\n"])
def test_who_does_not_finish_the_head_of_a_request_is_not_waited_for(impatient, begun):
    with socket.create_connection((impatient.host, impatient.port)) as connection:
        connection.sendall(begun)
        assert closed(connection)


def test_nor_who_begins_a_second_request_after_the_first(impatient):
    with socket.create_connection((impatient.host, impatient.port)) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: %s\r\n\r\n" % impatient.authority.encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.sendall(b"GET")
        assert closed(connection)


def test_but_an_answer_that_takes_longer_is_waited_for(impatient):
    assert impatient.get("/slow").body == b"done"


def test_who_does_not_read_an_answer_is_not_waited_for(impatient):
    with socket.create_connection((impatient.host, impatient.port)) as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nHost: %s\r\n\r\n" % impatient.authority.encode())
        ended = select.poll()
        ended.register(connection, 0)  # nothing but its end
        assert ended.poll(DEADLINE * 1000), "it is kept open for who does not read"


def test_of_connections_there_are_only_so_many_and_those_that_are_there_stay(impatient):
    with ExitStack() as clients:
        one = http.client.HTTPConnection(impatient.host, impatient.port, timeout=DEADLINE)
        clients.callback(one.close)
        one.request("GET", "/slow")
        crowd = [
            clients.enter_context(socket.create_connection((impatient.host, impatient.port)))
            for _ in range(3 * Impatient.most_connections)
        ]
        assert one.getresponse().read() == b"done"
        assert all(map(closed, crowd))
    assert impatient.get("/livez").status == 200
