"""Peers on a page: whose turn it is, their mail as a board by state, their work log."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.npm import TIME_TO_INSTALL

from .browser import PHONE, Visitors, does_not_scroll_sideways
from .live_server import new_store, served
from .page_text import Page

MEAN = "<script>alert(1)</script> \x1b[31mred\u202e"


def card(number: int, status: str, subject: str, to: str = "ada") -> str:
    return f"""### MSG-20261118-{number:03}

| Field | Value |
|---|---|
| Date | 2026-11-18T12:13:42Z |
| From | ben |
| To | {to} |
| Type | request |
| Priority | P0 |
| Status | {status} |
| Subject | {subject} |

**Summary**

> Body of {number}: {MEAN}

**Ack**

- ada — 2026-11-18T12:13:44Z — noted: {MEAN}
"""


def worklog(entries: int) -> str:
    told = "\n".join(
        f"### 2026-11-18T12:{number // 60:02}:{number % 60:02}Z — ada: Entry {number} {MEAN}\n\nWhat was done.\n"
        for number in range(entries)
    )
    return f"# WORKLOG\n\nNow Working (ada): the parser {MEAN}\nMaintainer Focus: speed\n\n## Session one\n\n{told}"


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    root = tmp_path_factory.mktemp("peers")
    (root / ".git").mkdir()
    (root / "WORKLOG.md").write_text(worklog(50))
    cards = [card(1, "new", "Which port?"), card(2, "acknowledged", MEAN), card(3, "closed (resolved)", "Done")]
    (root / "MAILBOX.md").write_text("# Mailbox\n\n## Active Messages (Newest First)\n\n" + "\n".join(cards))
    with served(new_store(root / "sortie.db")) as server:
        yield server


@TIME_TO_INSTALL
def test_a_phone_shows_peers_in_its_width(peers, visitors: Visitors):
    page = visitors.page(peers.url, size=PHONE)
    for path in ("/peers", "/peers?skip=40"):
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)
        expect(page.get_by_text("Which port?")).to_be_attached()
        assert does_not_scroll_sideways(page), path


def test_no_width_of_a_window_hides_a_page_from_the_navigation(peers, visitors: Visitors):
    out_of_sight = """() => [...document.querySelectorAll("nav a")].filter((link) =>
      link.getBoundingClientRect().right > link.parentElement.getBoundingClientRect().right + 1)
      .map((link) => link.textContent)"""
    page = visitors.page(peers.url)
    page.goto("/")
    expect(page.get_by_label("Pages").get_by_role("link")).to_have_count(5)
    for width in (375, 600, 760, 761, 800, 900, 1000, 1001, 1100, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(out_of_sight) == [], width
        assert does_not_scroll_sideways(page), width


def read(server, path: str = "/peers") -> Page:
    answer = server.get(path)
    assert answer.status == 200, answer.text[:500]
    page = Page(answer.text)
    assert page.faults == []
    assert all(one["src"].startswith("/static/") for one in page.named("script"))
    assert "\x1b" not in page.text and "\u202e" not in page.text
    return page


def test_navigation_leads_to_peers_where_agents_share_a_checkout(peers):
    assert "/peers" in read(peers, "/").links


def test_mail_is_a_board_with_a_column_for_each_state(peers):
    text = read(peers).text
    for column in ("new 1 Which port?", "acknowledged 1 <script>", "blocked 0", "actioned 0", "closed 1 Done"):
        assert column in text, column
    assert "ben → ada" in text


def test_the_work_log_is_read_page_by_page_from_the_newest(peers):
    newest = read(peers)
    assert "50 entries" in newest.text and "Entry 49" in newest.text and "Entry 29 " not in newest.text
    assert "Entry 0 " in read(peers, "/peers?skip=40").text
    assert "Maintainer Focus speed" in newest.text


def test_documents_that_are_no_documents_are_shown_as_far_as_they_can_be_read(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "WORKLOG.md").write_bytes(b"\xff\x00\xfe" * 5000)
    (tmp_path / "MAILBOX.md").write_bytes(b"|" * 20_000)
    (tmp_path / "peers.yaml").write_text("agents: 7\n")
    with served(new_store(tmp_path / "sortie.db")) as server:
        read(server)


@pytest.mark.parametrize(("document", "status"), [("CHARTER.md", 200), ("peers.yaml", 404)])
def test_pages_navigation_and_api_agree_whether_there_are_peers(tmp_path, document, status):
    (tmp_path / ".git").mkdir()
    (tmp_path / document).write_text("agents: {}\n")
    for place in (tmp_path / "WORKFLOW.md", tmp_path):
        with served(new_store(tmp_path / f"{place.name}.db"), place=place) as server:
            assert (server.get("/peers").status, server.get("/api/v2/peers").status) == (status, status)
            assert ("/peers" in read(server, "/").links) == (status == 200)
