"""Bodies that come slowly, or without end, are ended with an answer that says so, and the connection with them."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest

from sortie.web.bodies import MOST_BYTES_OF_LOGIN, BodyLimits
from sortie.web.site import Site
from sortie.web.tokens import new_token
from sortie.workflow.config import ServerConfig
from tests.store.sample import noted

from .live_server import DEADLINE, LiveServer, new_store, served, serving

REFRESH = "/api/v1/refresh"
ELSEWHERE = {"X-Forwarded-For": "192.0.2.7"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with served(new_store(tmp_path_factory.mktemp("bodies") / "sortie.db", noted("begun"))) as started:
        yield started


def site_with(folder: Path, limits: BodyLimits) -> Site:
    return Site(new_store(folder / "sortie.db", noted("begun")), folder / "WORKFLOW.md", bodies=limits)


def begun(server: LiveServer, path: str, *headers: str) -> socket.socket:
    """A connection on which the head of a POST was sent."""
    connection = socket.create_connection((server.host, server.port), timeout=DEADLINE)
    head = "\r\n".join((f"POST {path} HTTP/1.1", f"Host: {server.authority}", *headers))
    connection.sendall(f"{head}\r\n\r\n".encode())
    return connection


def until_closed(connection: socket.socket) -> bytes:
    pieces = []
    with suppress(ConnectionResetError):  # it did not read all of it
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("headers", [("Content-Length: 1000000",), ("Transfer-Encoding: chunked",)], ids=str)
def test_a_body_that_trickles_is_ended_with_its_connection(tmp_path, headers):
    """However steadily: it is the whole body that has a time."""
    with serving(site_with(tmp_path, BodyLimits(within=0.3))) as server:
        with closing(begun(server, REFRESH, *headers)) as connection:
            give_up = time.monotonic() + DEADLINE
            while not select.select([connection], [], [], 0.02)[0]:
                assert time.monotonic() < give_up, "nobody answers"
                connection.sendall(b"x" if "Length" in headers[0] else b"1\r\nx\r\n")
            answer = until_closed(connection)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"too_slow" in answer
        assert b"did not arrive within 0.3 s" in answer


def test_a_body_that_never_begins_is_ended_too(tmp_path):
    with serving(site_with(tmp_path, BodyLimits(within=0.1))) as server:
        with closing(begun(server, REFRESH, "Content-Length: 5")) as connection:
            answer = until_closed(connection)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"too_slow" in answer


def test_a_body_without_end_is_refused_once_it_is_far_too_large(tmp_path):
    """It does not say how long it is, and what was sent of it says nothing of an end."""
    limits = BodyLimits(most_bytes=1000, most_discarded=5000, within=DEADLINE * 4)
    with serving(site_with(tmp_path, limits)) as server:
        with closing(begun(server, REFRESH, "Transfer-Encoding: chunked")) as connection:
            for _ in range(6):
                connection.sendall(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            answer = until_closed(connection)
        assert answer.startswith(b"HTTP/1.1 413 ") and b"too_large" in answer


def test_nobody_has_to_log_in_with_a_megabyte(server):
    """That address is open to whoever can reach the port."""
    token = new_token(server.site.database, "operate")
    form = {"Content-Type": "application/x-www-form-urlencoded", **ELSEWHERE}
    padding = "x" * (MOST_BYTES_OF_LOGIN - 1000)
    fits = urlencode({"token": token, "next": "/runs", "more": padding})
    assert server.request("POST", "/login", form, fits).status == 303
    answer = server.request("POST", "/login", form, fits + padding)
    assert (answer.status, answer.text) == (413, "The body of the request is larger than 8 KiB.\n")
    assert "set-cookie" not in answer.headers
    assert server.request("POST", "/logout", form, padding * 2).status == 413
    assert server.request("POST", REFRESH, {}, padding * 2).status == 503, "elsewhere more fits: nobody serves it"


def test_where_looking_needs_a_token_the_way_in_is_bounded_as_well(tmp_path):
    named = ServerConfig(public_url="http://sortie.example.com")
    with served(new_store(tmp_path / "sortie.db", noted("begun")), server=named) as server:
        too_much = "token=" + "x" * MOST_BYTES_OF_LOGIN
        answer = server.request("POST", "/login", {"Host": "sortie.example.com"}, too_much)
        assert answer.status == 413
