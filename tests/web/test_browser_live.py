"""An open page stays true by itself: what happens is seen, a broken connection is told of and recovers, and what a
reader does in the page meanwhile stays his."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.cli.scene import BLOCK, REVIEW, WAIT, wait_until
from tests.npm import TIME_TO_INSTALL

from .browsed_scene import BrowsedScene
from .browser import Visitors, log_in, until
from .server_scene import free_port

pytestmark = TIME_TO_INSTALL

# When the page showed an event first, by its number. It must not look by itself from time to time, and must be the
# page that was opened, not one loaded anew.
WATCH = """
window.isTheFirst = true;
window.shownAt = {};
window.refreshes = 0;
new MutationObserver((changes) => {
  window.refreshes += changes.filter((one) => one.attributeName === "data-now").length;
  const page = document.getElementById("page");
  if (page && page.dataset.follow !== "0") page.dataset.follow = "0";
  for (const one of document.querySelectorAll("#timeline li[id]")) window.shownAt[one.id.slice(1)] ??= Date.now();
}).observe(document, { childList: true, subtree: true, attributeFilter: ["data-follow", "data-now"] });
"""
# Every number that the stream told, in its order.
LISTEN = """
window.told = [];
window.beats = 0;
const Real = window.EventSource;
window.EventSource = class extends Real {
  constructor(...given) {
    super(...given);
    this.addEventListener("change", (event) => window.told.push(Number(event.lastEventId)));
    this.addEventListener("live", () => { window.beats += 1; });
  }
};
"""
# Two turns without a word, and one that hands over; the second one can be held.
THREE_TURNS = '[ "$SORTIE_TURN" = 3 ] || { %s :; return; }\n' + REVIEW


@pytest.fixture
def scene(tmp_path):
    return BrowsedScene(tmp_path)


def test_what_happens_is_seen_without_a_reload(scene, visitors: Visitors, record_property):
    scene.issue(1, "echo looking around; " + WAIT + REVIEW)
    with scene.browsed():
        now, page = visitors.page(scene.url), visitors.page(scene.url, script=WATCH)
        now.goto("/")
        expect(now.locator("#running")).to_contain_text("standing by")
        page.goto("/issues/T-1?all=1")
        until(page, "window.refreshes > 0")  # the one with which the stream begins
        expect(page.locator("#transcript")).to_contain_text("standing by")
        before = {int(one) for one in page.evaluate("Object.keys(window.shownAt)")}
        scene.go()
        expect(page.locator("#timeline")).to_contain_text("In Review")
        expect(page.locator("#transcript")).to_contain_text("working")
        expect(now.locator("#needs-you")).to_contain_text("ready for review")
        expect(now.locator("#running")).to_contain_text("Nothing runs.")
        assert page.evaluate("window.isTheFirst")
        shown = {int(seq): at / 1000 for seq, at in page.evaluate("window.shownAt").items()}
    late = [shown[seq] - at for seq, at in scene.events().items() if seq in shown and seq not in before]
    assert late
    measured = f"{len(late)} events were seen after {min(late):.2f} to {max(late):.2f} s"
    record_property("seen after", measured)
    print(measured)


def test_kill_9_in_mid_stream_is_told_of_and_loses_and_repeats_nothing(scene, visitors: Visitors):
    port = free_port()
    with scene.running(port) as service:
        page = visitors.page(service.url(), script=LISTEN)
        page.goto("/")
        until(page, "window.beats > 0")
        last_before = max(scene.events())
        for number in range(1, 7):
            held = WAIT if number > 3 else ""
            scene.issue(number, THREE_TURNS % held)
        until(page, "window.told.length > 20")
        service.popen.kill()
        service.wait()
        expect(page.locator("#stale")).to_contain_text("Stale since")
        expect(page.locator("#stale")).to_be_visible()
        expect(page.locator("body")).to_have_class("is-live is-stale")
        told = page.evaluate("window.told")
        scene.go()
        with scene.running(port):
            expect(page.locator("#stale")).to_be_hidden()
            expect(page.locator("body")).to_have_class("is-live")
            expect(page.locator("#reviews tbody tr")).to_have_count(6)
            wait_until(lambda: page.evaluate("window.told.at(-1)") == max(scene.events()))
            expect(page.locator("#service")).to_have_text("running")
            after = page.evaluate("window.told")
    assert len(told) < len(after), "things happened before and after"
    assert after == list(scene.events(last_before))


def test_what_a_reader_does_in_a_page_survives_its_refresh(scene, visitors: Visitors):
    """Half of an answer, the place of the cursor in it, what was unfolded, and where it was scrolled to."""
    files = "echo one > one.txt; echo two > two.txt\n"
    scene.issue(1, files + "git init -q . >&2\n" + BLOCK)
    scene.issue(2, WAIT + REVIEW)
    with scene.browsed():
        page = visitors.page(scene.url)
        log_in(page, scene.store)
        page.goto("/issues/T-1")
        answer = page.locator("#question textarea")
        details = page.locator("#changes details").first
        details.locator("summary").click()
        expect(details.locator(".diff")).to_be_visible()
        answer.fill("Take the old key, and")
        answer.evaluate("box => box.setSelectionRange(5, 8)")
        page.evaluate("scrollTo(0, 60)")
        scrolled = page.evaluate("scrollY")
        assert scrolled > 0
        shown = page.locator("#page").get_attribute("data-now")
        scene.go()
        expect(page.locator("#page")).not_to_have_attribute("data-now", shown or "")
        expect(answer).to_have_value("Take the old key, and")
        expect(answer).to_be_focused()
        assert answer.evaluate("box => [box.selectionStart, box.selectionEnd]") == [5, 8]
        expect(details.locator(".diff")).to_be_visible()
        assert page.evaluate("scrollY") == scrolled
        answer.press_sequentially("XYZ")
        expect(answer).to_have_value("Take XYZ old key, and")
