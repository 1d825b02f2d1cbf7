"""Where looking needs a token, a link of another site leads who is logged in to its page, and others to the form.

A browser keeps our cookie back when it follows such a link. It does not when it sets out from a page of ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.sample import seen

from .live_server import LiveServer, new_store, served

HTML = {"Accept": "text/html,application/xhtml+xml"}
FOLLOWED = {**HTML, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
WANTED = "/issues/DEMO-1?all=1&x=%22"
ON = "/login?next=%2Fissues%2FDEMO-1%3Fall%3D1%26x%3D%2522"
FIELD = 'name="next" value="/issues/DEMO-1?all=1&amp;x=%22"'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with served(new_store(tmp_path_factory.mktemp("links") / "sortie.db", seen("1")), host="0.0.0.0") as started:
        yield started


@pytest.mark.parametrize("told", [FOLLOWED, HTML], ids=["told", "not told"])
def test_where_the_cookie_may_have_been_kept_back_a_page_of_ours_leads_on(server, told):
    """To a site without encryption browsers say nothing of where a link was."""
    answer = server.request("GET", WANTED, told)
    assert answer.status == 401
    assert f'<meta http-equiv="refresh" content="0; url={ON}">' in answer.text


def test_from_there_who_is_logged_in_comes_to_the_page(server):
    answer = server.get(ON, Cookie=server.cookie("read"), Sec_Fetch_Site="same-origin", **HTML)
    assert (answer.status, answer.headers["location"]) == (303, WANTED)


@pytest.mark.parametrize("cookie", ["", "sortie_{port}=revoked"])
def test_and_anybody_else_to_the_form_where_it_ends(server, cookie):
    for told in (HTML, {**HTML, "Sec-Fetch-Site": "same-origin"}, FOLLOWED):
        answer = server.request("GET", ON, {**told, "Cookie": cookie.format(port=server.port)})
        assert answer.status == 200
        assert FIELD in answer.text
        assert "refresh" not in answer.text


@pytest.mark.parametrize("site", ["none", "same-origin", "same-site"])
def test_where_the_cookie_would_have_come_along_there_is_the_form_at_once(server, site):
    answer = server.request("GET", WANTED, {**FOLLOWED, "Sec-Fetch-Site": site})
    assert answer.status == 401
    assert FIELD in answer.text
    assert "refresh" not in answer.text


def test_no_address_makes_the_form_lead_elsewhere(server):
    for path in ("//evil.example/x", "///evil.example", "http://evil.example/", "/a?b=\\", "/" + "a" * 3000):
        lines = [f"GET {path} HTTP/1.1", f"Host: {server.authority}", "Accept: text/html", "Connection: close"]
        answer = server.raw("\r\n".join([*lines, "", ""]).encode())
        assert answer.split()[1] == b"401"
        assert b'name="next" value="/"' in answer
        assert b'url=/login?next=%2F"' in answer


def test_what_is_in_an_address_is_text(server):
    answer = server.request("GET", "/issues/'\"><script>alert(1)</script>", FOLLOWED)
    assert answer.status == 401
    assert "<script" not in answer.text
    assert 'value="/issues/&#x27;&quot;&gt;&lt;script' in answer.text


def test_programs_are_refused_as_before(server):
    for path, said in (("/api/v2/status", FOLLOWED), ("/", {"Sec-Fetch-Site": "same-origin"})):
        answer = server.request("GET", path, said)
        assert (answer.status, "refresh" in answer.text) == (401, False)
    assert server.request("POST", "/issues/1/stop", HTML).text.count("refresh") == 0
