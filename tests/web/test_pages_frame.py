"""What stands around every page: who looks, what they may do here, and how they leave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .live_server import LiveServer, new_store, served
from .page_text import Page

HOW_TO_GET_MORE = "sortie token new"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with served(new_store(tmp_path_factory.mktemp("frame") / "sortie.db")) as server:
        yield server


@pytest.fixture(scope="module")
def showing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A site that changes nothing."""
    with served(new_store(tmp_path_factory.mktemp("showing") / "sortie.db"), read_only=True) as server:
        yield server


def has_a_way_out(page: Page) -> bool:
    return "/logout" in [form.get("action") for form in page.named("form")]


def seen(server: LiveServer, **headers: str) -> Page:
    return Page(server.get("/", accept="text/html", **headers).text)


def test_who_has_no_token_is_told_how_to_get_one(server):
    page = seen(server)
    assert "You can only read" in page.text and HOW_TO_GET_MORE in page.text
    assert not has_a_way_out(page)


@pytest.mark.parametrize("scope", ["read", "operate"])
def test_who_logged_in_may_log_out(server, scope):
    page = seen(server, cookie=server.cookie(scope))
    assert has_a_way_out(page)
    assert (HOW_TO_GET_MORE in page.text) == (scope == "read")


def test_a_cookie_that_counts_no_more_is_none(server):
    assert not has_a_way_out(seen(server, cookie=f"sortie_{server.port}=revoked"))


def test_a_site_that_only_shows_promises_nothing_to_who_gets_a_token(showing):
    for headers in ({}, {"cookie": showing.cookie("operate")}):
        page = seen(showing, **headers)
        assert HOW_TO_GET_MORE not in page.text
        assert "This dashboard is read-only" in page.text
        assert has_a_way_out(page) == bool(headers)
