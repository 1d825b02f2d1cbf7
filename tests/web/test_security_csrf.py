"""A page of another site cannot make a browser change anything here, whatever cookies the browser has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from sortie.store.commands import pending_commands
from sortie.store.connect import connect_readonly
from tests.store.sample import noted

from .live_server import LiveServer, new_store, served

FORM = "application/x-www-form-urlencoded"
REFRESH = b'{"verb": "refresh"}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with served(new_store(tmp_path_factory.mktemp("csrf") / "sortie.db", noted("begun", issue="1"))) as started:
        yield started


def commands(server: LiveServer) -> list[str]:
    with closing(connect_readonly(server.site.database)) as db:
        return [command.verb for command in pending_commands(db)]


OTHERS = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost:{port}"},
    {"Origin": "http://127.0.0.1:{port}@evil.example"},
    {"Origin": "http://127.0.0.1:{port}.evil.example"},
    {"Origin": "ftp://127.0.0.1:{port}"},
    {"Origin": "127.0.0.1:{port}"},
    {"Origin": ""},
    {"Origin": "http://127.0.0.1:{port} http://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    {"Sec-Fetch-Site": "anything new"},
    {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "cross-site"},
]


@pytest.mark.parametrize("said", OTHERS, ids=str)
@pytest.mark.parametrize("path", ["/api/v2/commands", "/api/v1/refresh", "/issues/1/stop", "/logout", "/login"])
def test_what_another_site_sends_is_refused_with_cookie_and_bearer(server, said, path):
    before = commands(server)
    headers = {name: value.format(port=server.port) for name, value in said.items()}
    for proof in ({"Cookie": server.cookie()}, {"Authorization": server.bearer()}):
        answer = server.request("POST", path, {**headers, **proof, "Content-Type": FORM}, b"text=x&token=x")
        assert answer.status == 403, answer
        assert "set-cookie" not in answer.headers
    assert commands(server) == before


def test_a_form_of_our_own_page_is_taken(server):
    for said in ({"Origin": server.url}, {"Sec-Fetch-Site": "same-origin"}):
        answer = server.request("POST", "/api/v2/commands", {**said, **JSON, "Cookie": server.cookie()}, REFRESH)
        assert answer.status in (200, 202), answer
    assert "refresh" in commands(server)


def test_a_cookie_without_any_word_of_where_it_comes_from_is_not_enough(server):
    answer = server.post("/api/v2/commands", REFRESH, Cookie=server.cookie())
    assert (answer.status, answer.code) == (403, "no_origin")


def test_a_bearer_needs_no_origin(server):
    answer = server.post("/api/v2/commands", REFRESH, Authorization=server.bearer(), **JSON)
    assert answer.status in (200, 202), answer


def test_two_origins_are_none(server):
    head = (
        f"POST /api/v1/refresh HTTP/1.1\r\nHost: {server.authority}\r\nConnection: close\r\nContent-Length: 0\r\n"
    )
    sent = f"{head}Origin: {server.url}\r\nOrigin: http://evil.example\r\n\r\n"
    assert server.raw(sent.encode()).startswith(b"HTTP/1.1 403 ")


def test_the_cookie_is_for_us_alone_and_for_no_script(server):
    answer = server.get(f"/login?token={server.bearer().split()[1]}")
    name, *rules = answer.headers["set-cookie"].lower().split("; ")
    assert name.startswith(f"sortie_{server.port}=")
    assert {"httponly", "samesite=strict", "path=/"} <= set(rules)
    assert "secure" not in rules
    assert not any(rule.startswith("domain") for rule in rules)


def test_the_cookie_of_an_encrypted_connection_stays_on_such(server):
    answer = server.get(f"/login?token={server.bearer().split()[1]}", X_Forwarded_Proto="https")
    assert "secure" in answer.headers["set-cookie"].lower().split("; ")


def test_who_logs_out_has_no_cookie_any_more(server):
    answer = server.post("/logout", Cookie=server.cookie(), Origin=server.url)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert f'sortie_{server.port}="";' in answer.headers["set-cookie"]
    assert "Max-Age=0" in answer.headers["set-cookie"]
