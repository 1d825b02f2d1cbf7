"""A real nginx in front of the dashboard, set up as the documentation says: by its name, looking needs a token."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sortie.web.tokens import new_token
from sortie.workflow.config import ServerConfig
from tests.apt import NotInstalled, installed, not_tested
from tests.store.sample import noted

from .live_server import DEADLINE, LiveServer, new_store, served

NAME = "sortie.example.com"
PAGE = Path(__file__).parents[2] / "docs" / "dashboard.md"
SETTINGS = """
daemon off; master_process off; pid {place}/pid; error_log {place}/log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {place}/a; proxy_temp_path {place}/b; fastcgi_temp_path {place}/c;
    uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;
    server {{
        listen 127.0.0.1:{port};
        {location}
    }}
}}
"""
# It passes on the address that it was given as the name, as most do that are told nothing else.
NAMELESS = "location / {{ proxy_pass http://{authority}; proxy_set_header X-Forwarded-For $remote_addr; }}"


@contextmanager
def proxy(place: Path, location: str) -> Iterator[int]:
    """nginx as it is installed; its port."""
    try:
        installed(["nginx"], ["nginx-light"])
    except NotInstalled as problem:
        not_tested(problem)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    place.mkdir()
    (place / "conf").write_text(SETTINGS.format(place=place, port=port, location=location))
    with subprocess.Popen(["nginx", "-p", place, "-c", place / "conf"], stderr=subprocess.DEVNULL) as process:
        try:
            give_up = time.monotonic() + DEADLINE
            while not listens(port):
                assert process.poll() is None and time.monotonic() < give_up, (place / "log").read_text()
            yield port
        finally:
            process.terminate()


def listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def as_documented(server: LiveServer) -> str:
    """The block of the documentation, with the port of this server."""
    found = re.search(r"```nginx\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found and "127.0.0.1:7678" in found[1]
    return found[1].replace("127.0.0.1:7678", server.authority)


def asked(port: int, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    named = {"Host": NAME, **{name.replace("_", "-"): value for name, value in headers.items()}}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        said = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, said, answer.read().decode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    settings = ServerConfig(public_url=f"http://{NAME}/")
    with served(new_store(tmp_path / "sortie.db", noted("begun")), server=settings) as started:
        yield started


@pytest.fixture
def behind(tmp_path: Path, server: LiveServer) -> Iterator[int]:
    with proxy(tmp_path / "nginx", as_documented(server)) as port:
        yield port


def test_by_that_name_everything_needs_a_token(server, behind):
    for path in ("/", "/runs", "/api/v1/state", "/api/v2/status", "/metrics"):
        assert asked(behind, "GET", path)[0] == 401
    assert asked(behind, "GET", "/api/v2/status", Authorization=server.bearer("read"))[0] == 200
    assert asked(behind, "POST", "/api/v1/refresh")[0] == 401
    assert server.get("/").status == 200  # on this machine all is as it was


def test_a_person_logs_in_through_it_and_changes_something(server, behind):
    token = new_token(server.site.database, "operate")
    status, headers, _ = asked(behind, "GET", f"/login?token={token}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"].partition(";")[0]
    assert asked(behind, "GET", "/", Cookie=cookie)[0] == 200
    path = "/api/v1/refresh"
    assert asked(behind, "POST", path, Cookie=cookie)[0] == 403, "a browser says which page sends it"
    assert asked(behind, "POST", path, Cookie=cookie, Origin="http://evil.example")[0] == 403
    assert asked(behind, "POST", path, Cookie=cookie, Origin=f"http://{NAME}")[0] in (202, 503)


def test_events_come_through_as_they_happen(server, behind):
    with closing(http.client.HTTPConnection("127.0.0.1", behind, timeout=DEADLINE)) as connection:
        headers = {"Host": NAME, "Authorization": server.bearer("read"), "Last-Event-ID": "0"}
        connection.request("GET", "/api/v2/events/stream", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        read = b""
        while b"begun" not in read:
            piece = answer.read1(4096)
            assert piece, read
            read += piece


def test_any_other_name_is_still_refused(server, behind):
    assert asked(behind, "GET", "/", Host="evil.example")[0] == 421
    assert asked(behind, "GET", "/", Host=f"{NAME}:1")[0] == 421


def test_a_proxy_that_says_who_asks_lets_nobody_in_under_our_own_name(tmp_path, server):
    with proxy(tmp_path / "nameless", NAMELESS.format(authority=server.authority)) as port:
        assert asked(port, "GET", "/")[0] == 401
