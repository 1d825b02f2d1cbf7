"""Tricks with addresses and headers lead nowhere: neither to files, nor to other hosts, nor into the answer."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.web.header_checks import authority, is_of_another_site, local_path
from tests.store.sample import noted, seen

from .live_server import Answer, LiveServer, new_store, served

SECRET = "the words in the file outside"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    directory = tmp_path_factory.mktemp("paths")
    (directory / "outside.txt").write_text(SECRET)
    store = new_store(directory / "sortie.db", seen("1"), noted("begun", issue="1"))
    with served(store) as started:
        yield started


UP = ["..", "%2e%2e", "%2E%2e", ".%2e", "..%2f", "%2e%2e%2f", "..%5c", "..\\", "%252e%252e", "..%00", "..;"]
PLACES = ["/static/x/", "/static/", "/issues/", "/runs/", "/api/v1/", "/api/v2/", "/plan/", "/"]


@pytest.mark.parametrize("up", UP)
@pytest.mark.parametrize("place", PLACES)
def test_no_way_up_leads_to_a_file(server, up, place):
    for target in ("outside.txt", "sortie.db", "WORKFLOW.md", "etc/passwd"):
        path = f"{place}{'/'.join([up] * 4)}/{target}"
        sent = f"GET {path} HTTP/1.1\r\nHost: {server.authority}\r\nConnection: close\r\n\r\n"
        answer = server.raw(sent.encode("latin-1"))
        assert answer.split()[1] in (b"400", b"404", b"503"), answer
        assert SECRET.encode() not in answer
        assert b"SQLite format" not in answer
        assert b"active_states" not in answer


@pytest.mark.parametrize(
    "path",
    [
        "/%00", "/issues/%00", "/issues/a%0d%0aX-Evil:%201", "/issues/%ff%fe", "/runs/%0a", "/api/v1/%00%0d%0a",
        "/issues/" + "a" * 5000, "/issues/%2e%2e%2f%2e%2e", "/static/x/%00", "/api/v1/a%2fb", "/issues/a\\b",
    ],
)  # fmt: skip
def test_strange_names_are_names_that_nobody_has(server, path):
    answer = server.get(path.replace("\\", "%5c"))
    assert answer.status in (400, 404, 503)  # the older surface shows nothing while no service speaks
    assert "x-evil" not in answer.headers


@pytest.mark.parametrize(
    "path", ["//evil.example/", "//evil.example/..", "/\\evil.example/", "//evil.example/issues/"]
)
def test_no_address_sends_a_browser_to_another_host(server, path):
    sent = f"GET {path} HTTP/1.1\r\nHost: {server.authority}\r\nConnection: close\r\n\r\n"
    head = server.raw(sent.encode()).partition(b"\r\n\r\n")[0].lower()
    for line in head.split(b"\r\n"):
        assert not line.startswith(b"location: //")
        assert not line.startswith(b"location: http://evil")
        assert not line.startswith(b"location: \\")


@pytest.mark.parametrize(
    "path", ["/login/", "/runs/", "/health/", "/metrics/", "/livez/", "/issues", "/static", "/api/v2/status/"]
)
def test_a_slash_too_many_or_too_few_leads_nowhere(server, path):
    """An absolute address of ours would begin with `http`, also where a proxy encrypts: a token would go there."""
    token = server.bearer().split()[1]
    said = {"Cookie": server.cookie(), "X-Forwarded-Proto": "https"}
    answer = server.request("GET", f"{path}?token={token}", said)
    assert (answer.status, answer.headers.get("location")) == (404, None)
    assert "There is nothing at this address." in answer.text
    assert not path.startswith("/api/") or answer.code == "not_found"


ELSEWHERE = [
    "//evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example", "javascript:alert(1)",
    "/\t/evil.example", "/\n/evil.example", "\t//evil.example", " //evil.example", "/%0a", "evil.example", "",
    "/a\r\nSet-Cookie: x=1", "/\x00", "/ä", "///evil.example", "/" + "a" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("target", ELSEWHERE)
def test_who_logs_in_stays_here(server, target):
    answer = server.get(f"/login?token={server.bearer().split()[1]}&next={quote(target)}")
    assert answer.status == 303
    location = answer.headers["location"]
    assert location.startswith("/") and not location.startswith(("//", "/\\"))
    assert answer.headers["set-cookie"].startswith(f"sortie_{server.port}=")


@pytest.mark.parametrize("target", [one for one in ELSEWHERE if one not in ("", "/%0a")])
def test_nor_does_the_form_lead_elsewhere(server, target):
    shown = server.get(f"/login?next={quote(target)}")
    assert 'name="next" value="/"' in shown.text
    assert "refresh" not in shown.text
    assert server.get(f"/login?next={quote(target)}", Cookie=server.cookie()).headers["location"] == "/"
    answer = log_in_by_form(server, server.bearer().split()[1], target)
    assert (answer.status, answer.headers["location"]) == (303, "/")


def log_in_by_form(server: LiveServer, token: str, target: str) -> Answer:
    said = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    return server.request("POST", "/login", said, urlencode({"token": token, "next": target}))


def test_who_pastes_a_token_is_led_to_the_page_that_was_wanted(server):
    target = "/issues/DEMO-1?x=1&y=2"
    assert log_in_by_form(server, server.bearer().split()[1], target).headers["location"] == target
    mistyped = log_in_by_form(server, "mistyped", target)
    assert mistyped.status == 401
    assert 'name="next" value="/issues/DEMO-1?x=1&amp;y=2"' in mistyped.text
    assert "refresh" not in mistyped.text


def test_who_logs_in_is_led_to_the_page_that_was_wanted(server):
    answer = server.get(f"/login?token={server.bearer().split()[1]}&next=/issues/DEMO-1%3Fx%3D1")
    assert answer.headers["location"] == "/issues/DEMO-1?x=1"


def test_after_a_link_of_another_site_a_page_of_ours_leads_on(server):
    said = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    path = f"/login?token={server.bearer().split()[1]}&next=/issues/%22%3E%3Cscript%3E"
    answer = server.request("GET", path, said)
    assert answer.status == 200
    assert 'http-equiv="refresh"' in answer.text
    assert "<script" not in answer.text
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_the_page_after_the_login_has_no_token_in_its_address(server):
    answer = server.get(f"/login?token={server.bearer().split()[1]}")
    assert answer.headers["location"] == "/"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("value", ["a\x00b", "x" * 20_000, "=;=;;;", "sortie_{port}=\xff", '"', "sortie_{port}"])
def test_strange_cookies_are_nobodys(server, value):
    cookie = value.format(port=server.port)
    lines = f"GET / HTTP/1.1\r\nHost: {server.authority}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    assert server.raw(lines.encode("latin-1")).split()[1] in (b"200", b"400")
    lines = f"POST /nowhere HTTP/1.1\r\nHost: {server.authority}\r\nOrigin: {server.url}\r\nCookie: {cookie}\r\n"
    assert server.raw((lines + "Connection: close\r\n\r\n").encode("latin-1")).split()[1] in (b"401", b"400")


def test_headers_without_end_are_refused_and_the_server_goes_on(server):
    lines = "".join(f"X-{number}: {'y' * 1000}\r\n" for number in range(200))
    sent = f"GET / HTTP/1.1\r\nHost: {server.authority}\r\n{lines}\r\n".encode()
    try:
        answer = server.raw(sent)
        assert answer == b"" or answer.split()[1] in (b"400", b"431")
    except ConnectionError:
        pass  # it did not read all of it
    assert server.get("/").status == 200


@pytest.mark.parametrize("token", ["x" * 3000, "%00", "%ff%fe", "%0d%0aSet-Cookie:%20a=b", "' OR 1=1 --", ""])
def test_no_strange_token_lets_anybody_in(server, token):
    answer = server.get(f"/login?token={quote(token, safe='%')}")
    assert answer.status in (200, 401)
    assert "set-cookie" not in answer.headers


def test_a_body_that_is_too_large_is_not_read(server):
    head = f"POST /webhooks/tracker HTTP/1.1\r\nHost: {server.authority}\r\nContent-Length: 99999999999\r\n"
    assert server.raw(f"{head}Connection: close\r\n\r\n".encode()).split()[1] == b"413"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_with_two_ends_is_refused_and_what_comes_after_either_is_not_read(server, method):
    """A proxy before us may have believed the other one: then the rest is what somebody else sends on."""
    head = f"{method} /api/v1/refresh HTTP/1.1\r\nHost: {server.authority}\r\n"
    hidden = f"GET /livez HTTP/1.1\r\nHost: {server.authority}\r\n\r\n"
    lengths = f"Content-Length: {len(hidden) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    said = server.raw(f"{head}{lengths}{hidden}".encode())
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"two_lengths" in said
    assert said.count(b"HTTP/1.1 ") == 1


@given(st.text())
def test_whatever_is_wanted_the_way_on_is_a_path_of_ours(text):
    found = local_path(text)
    assert found.startswith("/") and found[1:2] not in ("/", "\\")
    assert found.isascii() and found.isprintable() and " " not in found


HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"via"]),
        st.sampled_from([b"", b"null", b"127.0.0.1:7", b"http://127.0.0.1:7", b"none", b"same-origin"])
        | st.binary(),
    )
)


@given(st.sampled_from(["GET", "POST"]), HEADERS)
def test_whatever_headers_come_they_are_judged(method, headers):
    judged = is_of_another_site(method, headers)
    origins = [value for name, value in headers if name == b"origin"]
    if origins and not judged:
        (host,) = [value for name, value in headers if name == b"host"]
        (origin,) = origins
        scheme, _, rest = origin.decode("latin-1").partition("://")
        assert authority(rest, scheme) == authority(host.decode("latin-1").strip(), scheme)
        assert authority(rest, scheme) is not None
