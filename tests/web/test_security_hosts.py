"""A name that was made to point at this machine is not one of ours: no page that a browser has from it gets in."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.store.sample import noted

from .live_server import LiveServer, new_store, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with served(new_store(tmp_path_factory.mktemp("hosts") / "sortie.db", noted("begun"))) as started:
        yield started


def status_for(server: LiveServer, host: str | None, version: str = "1.1", path: str = "/") -> int:
    lines = [f"GET {path} HTTP/{version}", *([] if host is None else [f"Host: {host}"]), "Connection: close"]
    return int(server.raw("\r\n".join([*lines, "", ""]).encode("latin-1")).split()[1])


OURS = ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}", "[0:0:0:0:0:0:0:1]:{port}"]


@pytest.mark.parametrize("host", OURS)
def test_names_of_loopback_with_our_port_are_ours(server, host):
    assert status_for(server, host.format(port=server.port)) == 200


OTHERS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost",
    "localhost.:{port}",
    "127.0.0.1.:{port}",
    "127.0.0.1.evil.example:{port}",
    "localhost.evil.example:{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "0x7f.0.0.1:{port}",
    "127.0.0.2:{port}",
    "0.0.0.0:{port}",
    "169.254.169.254:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "[::2]:{port}",
]
NONSENSE = [
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port}@evil.example",
    "127.0.0.1:{port}/",
    "127.0.0.1:{port},evil.example",
    "127.0.0.1:{port}:{port}",
    "127.0.0.1:",
    "127.0.0.1:{port}1111111",
    "[::1",
    "::1:{port}",
    "[fe80::1%25lo]:{port}",
    "[::zz]:{port}",
    "127.0.0.1 :{port}",
    "loc\u00e4lhost:{port}",
    ":{port}",
    "a" * 300,
]


@pytest.mark.parametrize("host", OTHERS)
def test_any_other_name_is_misdirected(server, host):
    assert status_for(server, host.format(port=server.port)) == 421


@pytest.mark.parametrize("host", NONSENSE)
def test_what_is_no_name_at_all_is_a_bad_request(server, host):
    assert status_for(server, host.format(port=server.port)) == 400


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/state", "/metrics", "/api/v2/events/stream", "/login", "/static/x/y"]
)
def test_that_holds_for_every_part_of_the_site(server, path):
    assert status_for(server, "evil.example", path=path) == 421


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_without_a_name_nothing_is_shown(server, version):
    assert status_for(server, None, version) == 400
    assert status_for(server, "", version) == 400


def test_two_names_are_none(server):
    sent = f"GET / HTTP/1.1\r\nHost: {server.authority}\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert server.raw(sent.encode()).startswith(b"HTTP/1.1 400 ")


def test_what_a_proxy_says_of_the_name_counts_for_nothing(server):
    sent = (
        f"GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: {server.authority}\r\nConnection: close\r\n\r\n"
    )
    assert server.raw(sent.encode()).startswith(b"HTTP/1.1 421 ")


def test_on_ipv6_its_own_address_is_ours(tmp_path):
    with served(new_store(tmp_path / "sortie.db"), host="::1") as server:
        assert status_for(server, f"[::1]:{server.port}") == 200
        assert status_for(server, f"localhost:{server.port}") == 200
        assert status_for(server, f"[::2]:{server.port}") == 421


def test_elsewhere_than_on_loopback_the_name_of_the_machine_is_ours_too(tmp_path):
    with served(new_store(tmp_path / "sortie.db"), host="0.0.0.0") as server:
        assert status_for(server, f"{os.uname().nodename}:{server.port}") == 401
        assert status_for(server, f"evil.example:{server.port}") == 421


def test_a_webhook_may_be_sent_to_any_name_and_nothing_else_may(server):
    for method, path, status in (("POST", "/webhooks/tracker", 404), ("POST", "/webhooks/other", 421)):
        sent = f"{method} {path} HTTP/1.1\r\nHost: hooks.example\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        assert int(server.raw(sent.encode()).split()[1]) == status
