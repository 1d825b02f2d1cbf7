"""The link in a message, clicked in the web mail of another site, where looking needs a token."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from threading import Thread

import pytest
from playwright.sync_api import Page, expect

from sortie.web.tokens import new_token
from tests.npm import TIME_TO_INSTALL
from tests.servers.loopback_http import LoopbackHTTP
from tests.store.sample import seen

from .browser import Visitors, log_in
from .live_server import LiveServer, new_store, served

pytestmark = TIME_TO_INSTALL

WANTED = "/issues/DEMO-1?all=1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with served(new_store(tmp_path_factory.mktemp("links") / "sortie.db", seen("1")), host="0.0.0.0") as started:
        yield started


@pytest.fixture(scope="module")
def mail(server: LiveServer) -> Iterator[str]:
    """A page with a link to an issue. To a browser `localhost` and `127.0.0.1` are different sites."""

    class Mail(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f'<!doctype html><title>Mail</title><a href="{server.url}{WANTED}">DEMO-1 asks</a>'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackHTTP(("127.0.0.1", 0), Mail) as web:
        thread = Thread(target=web.serve_forever)
        thread.start()
        yield f"http://localhost:{web.server_address[1]}/"
        web.shutdown()
        thread.join()


def follow(page: Page, mail: str) -> list[str]:
    """What the page asks for from now on, once its link is clicked."""
    page.goto(mail)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.is_navigation_request() else None)
    page.get_by_role("link", name="DEMO-1 asks").click()
    return asked


def test_leads_who_is_logged_in_to_the_page(server, mail, visitors: Visitors):
    page = visitors.page(server.url)
    log_in(page, server.site.database, "read")
    follow(page, mail)
    expect(page).to_have_url(server.url + WANTED)
    expect(page.locator("h1")).to_contain_text("DEMO-1")
    page.go_back()
    expect(page).to_have_url(mail)


def test_leads_anybody_else_there_by_way_of_the_form(server, mail, visitors: Visitors):
    page = visitors.page(server.url)
    asked = follow(page, mail)
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page).to_have_url(f"{server.url}/login?next=%2Fissues%2FDEMO-1%3Fall%3D1")
    assert len(asked) == 2, "the page that leads on, and the form"
    page.get_by_label("Token").fill(new_token(server.site.database, "read"))
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(server.url + WANTED)
    expect(page.locator("h1")).to_contain_text("DEMO-1")
