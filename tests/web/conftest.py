"""For the tests of a module: a server of a busy store, a browser, visitors that must not complain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.apt import NotInstalled, not_tested

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from .browser import Visitors
    from .live_server import LiveServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """The usual one; modules that need another have their own."""
    from .api_scene import busy_server

    with busy_server(tmp_path_factory.mktemp("busy")) as started:
        yield started


# Not for the session: while Playwright is there, its event loop counts as running, and no other could run.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from .browser import browsing

    try:
        with browsing() as started:
            yield started
    except NotInstalled as problem:
        not_tested(problem)


@pytest.fixture
def visitors(browser: Browser) -> Iterator[Visitors]:
    from .browser import Visitors

    visitors = Visitors(browser)
    yield visitors
    visitors.leave()
    assert visitors.complaints == []
