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

# It must not look by itself from time to time, and must be the page that was opened, not one loaded anew.
WATCH = """
window.isTheFirst = true;
window.refreshes = 0;
new MutationObserver((changes) => {
  window.refreshes += changes.filter((one) => one.attributeName === "data-now").length;
  const page = document.getElementById("page");
  if (page && page.dataset.follow !== "0") page.dataset.follow = "0";
}).observe(document, { childList: true, subtree: true, attributeFilter: ["data-follow", "data-now"] });
"""
# Every number that the stream told, in its order, and how often the service has spoken, which it does every second.
LISTEN = """
window.told = [];
window.beats = 0;
window.toldAt = {};
const Real = window.EventSource;
window.EventSource = class extends Real {
  constructor(...given) {
    super(...given);
    this.addEventListener("change", (event) => {
      window.told.push(Number(event.lastEventId));
      window.toldAt[event.lastEventId] = window.beats;
    });
    this.addEventListener("live", () => { window.beats += 1; });
  }
};
"""
# By the number of an event, how often the service spoke between telling of it and its place in the story.
AWAIT = """
window.waited = {};
new MutationObserver(() => {
  for (const one of document.querySelectorAll("#timeline li[id]")) {
    const seq = one.id.slice(1);
    if (seq in window.toldAt) window.waited[seq] ??= window.beats - window.toldAt[seq];
  }
}).observe(document, { childList: true, subtree: true });
"""
# The page's own seconds, however long they are, and which of them it was when it called itself stale.
COUNT = """
window.seconds = 0;
setInterval(() => { window.seconds += 1; }, 1000);
new MutationObserver(() => {
  if (document.body?.classList.contains("is-stale")) window.staleAt ??= window.seconds;
}).observe(document, { subtree: true, attributeFilter: ["class"] });
"""
# So many of them without a word, and one until it looks, and the page gives up by itself.
PATIENCE = 6 + 1
# Two turns without a word, and one that hands over; the second one can be held.
THREE_TURNS = '[ "$SORTIE_TURN" = 3 ] || { %s :; return; }\n' + REVIEW


@pytest.fixture
def scene(tmp_path):
    return BrowsedScene(tmp_path)


def test_what_happens_is_seen_without_a_reload(scene, visitors: Visitors):
    scene.issue(1, "echo looking around; " + WAIT + REVIEW)
    with scene.browsed():
        now, page = visitors.page(scene.url), visitors.page(scene.url, script=WATCH)
        now.goto("/")
        expect(now.locator("#running")).to_contain_text("standing by")
        page.goto("/issues/T-1?all=1")
        until(page, "window.refreshes > 0")  # the one with which the stream begins
        expect(page.locator("#transcript")).to_contain_text("standing by")
        scene.go()
        expect(page.locator("#timeline")).to_contain_text("In Review")
        expect(page.locator("#transcript")).to_contain_text("working")
        expect(now.locator("#needs-you")).to_contain_text("ready for review")
        expect(now.locator("#running")).to_contain_text("Nothing runs.")
        assert page.evaluate("window.isTheFirst")


def test_an_event_is_seen_before_the_service_has_spoken_twice(scene, visitors: Visitors):
    """A machine that has much else to do may be late once, and not each time."""
    scene.issue(1, WAIT + REVIEW)
    with scene.browsed():
        page = visitors.page(scene.url, script=WATCH + LISTEN + AWAIT)
        page.goto("/issues/T-1?all=1")
        expect(page.locator("#transcript")).to_contain_text("standing by")
        slowest = []
        for verb in ("stop", "unpark") * 3:
            before = max(scene.events())
            assert scene.run(verb, "T-1").returncode == 0
            until(page, "last => last in window.waited", max(scene.events()))
            waited = page.evaluate("window.waited")
            slowest.append(max(beats for seq, beats in waited.items() if int(seq) > before))
        print(slowest)
        assert min(slowest) <= 1


def test_kill_9_in_mid_stream_is_told_of_and_loses_and_repeats_nothing(scene, visitors: Visitors):
    port = free_port()
    with scene.running(port) as service:
        page = visitors.page(service.url(), script=LISTEN + COUNT)
        page.goto("/")
        until(page, "window.beats > 0")
        last_before = max(scene.events())
        for number in range(1, 7):
            held = WAIT if number > 3 else ""
            scene.issue(number, THREE_TURNS % held)
        until(page, "window.told.length > 20")
        killed_at = page.evaluate("window.seconds")
        service.popen.kill()
        service.wait()
        expect(page.locator("#stale")).to_contain_text("Stale since")
        expect(page.locator("#stale")).to_be_visible()
        expect(page.locator("body")).to_have_class("is-live is-stale")
        assert page.evaluate("window.staleAt") - killed_at <= PATIENCE
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
