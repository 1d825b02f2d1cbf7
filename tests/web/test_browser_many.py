"""Many pages in one browser, which has six connections to a server for all of them: those that nobody sees hold
none, and are true again as soon as somebody looks."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.cli.scene import REVIEW, WAIT
from tests.npm import TIME_TO_INSTALL

from .browsed_scene import BrowsedScene
from .browser import Visitors, log_in, until
from .server_scene import free_port

pytestmark = TIME_TO_INSTALL

# Chromium without a screen calls every page visible, whatever is before it. So this is no proof that a browser
# tells a page when it is hidden: the test does, in the browser's words. The connections and their number are real.
PLAY = """
window.isHidden = false;
Object.defineProperty(document, "hidden", { get: () => window.isHidden });
Object.defineProperty(document, "visibilityState", { get: () => (window.isHidden ? "hidden" : "visible") });
window.hide = (isHidden) => {
  window.isHidden = isHidden;
  document.dispatchEvent(new Event("visibilitychange"));
};
window.streams = [];
const Real = window.EventSource;
window.EventSource = class extends Real {
  constructor(...given) {
    super(...given);
    window.streams.push(this);
  }
};
window.open_streams = () => window.streams.filter((one) => one.readyState === Real.OPEN).length;
window.kept_streams = () => window.streams.filter((one) => one.readyState !== Real.CLOSED).length;
"""
CONNECTIONS = 6


@pytest.fixture
def scene(tmp_path):
    return BrowsedScene(tmp_path)


def hide(page: Page, is_hidden: bool = True) -> None:
    page.evaluate("isHidden => window.hide(isHidden)", is_hidden)


def test_more_pages_than_a_browser_has_connections_work_where_one_is_seen(scene, visitors: Visitors):
    scene.issue(1, "echo looking around; " + WAIT + REVIEW)
    with scene.browsed():
        first = visitors.page(scene.url, script=PLAY)
        log_in(first, scene.store)
        until(first, "window.open_streams() === 1")
        seen, pages = first, [first]
        while len(pages) <= CONNECTIONS:
            hide(seen)
            seen = first.context.new_page()
            pages.append(seen)
            seen.goto("/issues/T-1")
            until(seen, "window.open_streams() === 1")
        seen.get_by_role("button", name="Stop").click()
        expect(seen.get_by_role("button", name="Unpark")).to_be_visible()
        hide(seen)
        hide(first, False)
        expect(first.get_by_role("button", name="Unpark T-1")).to_be_visible()
        assert [page.evaluate("window.kept_streams()") for page in pages] == [1, *[0] * CONNECTIONS]
        assert [page.evaluate("document.body.className") for page in pages] == ["is-live"] * len(pages)


AWAY_MS = 600_000
WAYS = {
    "behind another": ("window.hide(true)", "window.hide(false)"),
    "left, and come back to": (
        "dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))",
        "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))",
    ),
}


@pytest.mark.parametrize(("leave", "come_back"), WAYS.values(), ids=WAYS)
def test_silence_while_nobody_looks_is_none(scene, visitors: Visitors, leave, come_back):
    scene.issue(1, "echo looking around; " + WAIT + REVIEW)
    with scene.browsed():
        page = visitors.page(scene.url, script=PLAY)
        page.clock.install()
        page.goto("/issues/T-1")
        until(page, "window.open_streams() === 1")
        expect(page.locator("#transcript")).to_contain_text("standing by")
        page.evaluate(leave)
        page.clock.run_for(AWAY_MS)
        assert page.evaluate("[window.kept_streams(), document.body.className]") == [0, "is-live"]
        scene.go()
        page.evaluate(come_back)
        until(page, "window.open_streams() === 1")
        expect(page.locator("#timeline")).to_contain_text("In Review")
        expect(page.locator("#stale")).to_be_hidden()


def test_where_the_server_is_gone_a_page_is_stale_since_somebody_saw_it(scene, visitors: Visitors):
    with scene.running(free_port()) as service:
        page = visitors.page(service.url(), script=PLAY)
        page.clock.install()
        page.goto("/")
        until(page, "window.open_streams() === 1")
        shown = time_in(page, "#as-of")
        hide(page)
        service.popen.kill()
        service.wait()
        page.clock.run_for(AWAY_MS)
        expect(page.locator("#stale")).to_be_hidden()
        hide(page, False)
        expect(page.locator("#stale")).to_contain_text("The connection to the server is broken")
        assert (time_in(page, "#stale") - shown) % timedelta(days=1) < timedelta(milliseconds=AWAY_MS)


def time_in(page: Page, place: str) -> timedelta:
    found = re.search(r"(\d\d):(\d\d):(\d\d)", page.locator(place).inner_text())
    assert found
    hours, minutes, seconds = map(int, found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)
