"""Other sites read nothing here; what we send can be told for nothing else, framed by nobody and run nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.store.sample import PARK, claimed, ended, noted, seen, settled

from .event_reader import PATH as STREAM
from .event_reader import listening
from .live_server import LiveServer, new_store, served

PAGES = ["/", "/issues/DEMO-1", "/runs", "/runs/r1", "/money", "/health", "/login", "/nowhere"]
DATA = ["/api/v1/state", "/api/v1/DEMO-1", "/api/v2/issues", "/api/v2/nowhere", "/metrics", "/livez"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    run = (claimed(), ended(), settled(park=PARK))
    store = new_store(tmp_path_factory.mktemp("reads") / "sortie.db", seen("1", title="<script>1</script>"), *run)
    with served(store) as started:
        yield started


@pytest.mark.parametrize("path", [*PAGES, *DATA])
def test_no_answer_allows_another_origin_to_read_it(server, path):
    answer = server.get(path)
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert server.get(path, Origin="http://evil.example").status == 403
    assert server.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert server.get(path, Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors").status == 403


@pytest.mark.parametrize("path", ["/", "/api/v2/commands", "/api/v1/refresh", STREAM])
def test_a_preflight_is_refused(server, path):
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = server.request("OPTIONS", path, {**asked, "Origin": "http://evil.example"})
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_link_on_another_site_leads_to_a_page(server):
    said = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert server.request("GET", "/", said).status == 200
    assert server.request("GET", "/", {**said, "Sec-Fetch-Dest": "iframe"}).status == 403


def test_another_site_hears_nothing_of_the_stream(server):
    for said in (
        {"Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        with listening(server, **said) as reader:
            assert reader.status == 403


@pytest.mark.parametrize("path", [*PAGES, *DATA, "/static/x/nothing", "/webhooks/tracker"])
def test_every_answer_says_what_a_browser_may_do_with_it(server, path):
    refused = server.post(path)
    wrong_host = server.get(path, Host="evil.example")
    for answer in (server.get(path), refused, wrong_host):
        rules = answer.headers["content-security-policy"].split("; ")
        assert "default-src 'none'" in rules
        assert {"script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(rules)
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers


@pytest.mark.parametrize("path", [*PAGES, *DATA])
def test_pages_and_data_are_kept_by_nobody(server, path):
    assert server.get(path, Accept="text/html").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_script_or_a_style_of_its_own(server, path):
    text = server.get(path, Accept="text/html").text
    assert not re.search(r"<script(?![^>]*\ssrc=)[^>]*>", text)
    assert "<style" not in text
    assert not re.search(r"<[^>]*\s(?:on[a-z]+|style)\s*=", text)
    assert "javascript:" not in text
    # Nothing is loaded from elsewhere; links to the tracker are links.
    assert not re.search(r"(?:src|action)=[\"']?(?:https?:)?//", text)


def test_a_request_through_a_proxy_is_not_taken_for_one_of_this_machine(server):
    for header in ("X-Forwarded-For", "X-Forwarded-Port", "X-FORWARDED-Prefix", "Forwarded", "X-Real-IP", "Via"):
        answer = server.request("GET", "/api/v1/state", {header: "for=10.1.2.3"})
        assert (answer.status, answer.code) == (401, "no_token")
    assert server.request("POST", "/api/v1/refresh", {"X-Forwarded-For": "127.0.0.1"}).status == 401
    said = {"X-Forwarded-For": "10.1.2.3", "Authorization": server.bearer("read")}
    assert server.request("GET", "/", said).status == 200


def test_elsewhere_than_on_loopback_a_small_page_says_how_to_get_in(tmp_path):
    with served(new_store(tmp_path / "sortie.db", noted("begun")), host="0.0.0.0") as server:
        answer = server.get("/", Accept="text/html")
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert "sortie token new" in answer.text
        assert 'action="/login"' in answer.text
        assert server.get("/", Cookie=server.cookie("read")).status == 200


def test_a_site_that_only_shows_changes_nothing_for_anybody(tmp_path):
    with served(new_store(tmp_path / "sortie.db", noted("begun", issue="1")), read_only=True) as server:
        for path in ("/api/v2/commands", "/issues/1/stop", "/nowhere"):
            for proof in ({}, {"Authorization": server.bearer()}):
                answer = server.request("POST", path, proof)
                assert answer.status == 403
        assert server.post("/api/v2/commands", Authorization=server.bearer()).code == "read_only"
        assert server.post("/webhooks/tracker").status == 404
