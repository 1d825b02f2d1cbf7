"""People decide in the page, with scripts and without; answers reach the agent, and no token means no change."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from sortie.core import events as ev
from sortie.store.web_tokens import short
from sortie.web.tokens import digest_of
from tests.cli.scene import REVIEW, WAIT, wait_until
from tests.npm import TIME_TO_INSTALL

from .browsed_scene import BrowsedScene
from .browser import Visitors, log_in
from .live_server import new_store
from .server_scene import free_port

pytestmark = TIME_TO_INSTALL

# Asks until it is answered; which conversation each prompt was in is kept.
ASKS = """
{ echo "--- $SORTIE_SESSION_ID"; cat prompt.txt; } >> "$base/prompts-$SORTIE_ISSUE_IDENTIFIER"
if grep -q 'the second one' prompt.txt; then HAND_OVER
else mkdir -p .sortie; printf 'blocked\\nreason: which database?\\n' > .sortie/status; fi
""".replace("HAND_OVER", REVIEW.strip())
PATHS = ("/", "/issues/T-5", "/issues/T-4", "/runs", "/money", "/health")
CHANGING = "form[method=post]:not([action='/logout']) button"


class Asking(BrowsedScene):
    """Agents that asked, by their number: 1 by a click, 2 by a double click, 3 without scripts, 4 nobody answers;
    5 works."""

    def turns(self, identifier: str) -> list[tuple[str, str]]:
        """The conversation and the prompt of each."""
        whole = (self.directory / f"prompts-{identifier}").read_text().split("--- ")[1:]
        return [(conversation, prompt) for conversation, _, prompt in (one.partition("\n") for one in whole)]

    def assert_went_on(self, identifier: str, answer: str) -> None:
        wait_until(lambda: self.tracker_issue(identifier)["state"] == "In Review")
        (before, asked), (after, answered) = self.turns(identifier)
        assert before == after, "the same conversation"
        assert answer not in asked and answered.count(answer) == 1
        (comment,) = wait_until(lambda: self.answers_in_tracker(identifier))
        assert answer in comment


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    scene = Asking(tmp_path_factory.mktemp("asking"))
    for number in (1, 2, 3, 4):
        scene.issue(number, ASKS)
    scene.issue(5, "echo at work; " + WAIT + REVIEW)
    with scene.browsed():
        wait_until(lambda: scene.parked() == {"T-1", "T-2", "T-3", "T-4"})
        yield scene


def need_of(page: Page, identifier: str):
    return page.locator("#needs-you article", has=page.get_by_role("link", name=identifier, exact=True))


@pytest.mark.parametrize(("identifier", "clicks"), [("T-1", 1), ("T-2", 2)], ids=["click", "double click"])
def test_an_answer_in_the_page_makes_the_agent_go_on_once(asking: Asking, visitors: Visitors, identifier, clicks):
    page = visitors.page(asking.url)
    log_in(page, asking.store)
    need = need_of(page, identifier)
    expect(need).to_contain_text("which database?")
    need.get_by_role("textbox").fill(f"Use the second one, {identifier}.")
    need.get_by_role("button", name="Answer").click(click_count=clicks)
    expect(page.locator(".reply-ok")).to_contain_text("its agent gets your answer")
    reply, figures = (page.locator(part).bounding_box() for part in ("#reply", ".stats"))
    assert reply and figures and figures["y"] >= reply["y"] + reply["height"] + 8
    asking.assert_went_on(identifier, f"Use the second one, {identifier}.")
    expect(page.locator("#reviews")).to_contain_text(identifier)
    expect(need).to_have_count(0)
    page.goto(f"/issues/{identifier}")
    expect(page.locator("#timeline")).to_contain_text(f"a person answered: Use the second one, {identifier}.")


def test_without_scripts_an_answer_is_a_plain_form(asking: Asking, visitors: Visitors):
    page = visitors.page(asking.url, java_script_enabled=False)
    log_in(page, asking.store)
    expect(need_of(page, "T-3")).to_contain_text("which database?")
    page.goto("/issues/T-3")
    page.get_by_label("Answer to T-3").fill("Use the second one, plainly.")
    page.get_by_role("button", name="Answer", exact=True).dblclick()
    expect(page.locator(".reply-ok")).to_contain_text("its agent gets your answer")
    asking.assert_went_on("T-3", "Use the second one, plainly.")

    def is_told_after_reload() -> bool:
        page.reload()
        return "In Review" in page.locator("#timeline").inner_text()

    wait_until(is_told_after_reload)


def test_without_scripts_every_page_says_what_it_is_for(asking: Asking, visitors: Visitors):
    page = visitors.page(asking.url, java_script_enabled=False)
    for path in PATHS:
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("#as-of")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
        expect(page.locator("#as-of-age")).to_be_hidden()  # it would stand still
        expect(page.locator("#service")).to_have_text("running")
        expect(page.locator("main .panel").first).to_be_visible()
    page.goto("/")
    page.get_by_role("link", name="T-5").click()
    expect(page.locator("#transcript")).to_contain_text("standing by")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("Text").fill("nobody said this")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("main")).to_contain_text("No run matches.")


def test_no_token_no_change(asking: Asking, visitors: Visitors):
    page = visitors.page(asking.url)
    commands = asking.commands()
    for path in PATHS:
        page.goto(path)
        expect(page.locator("#as-of")).to_be_visible()
        expect(page.locator(CHANGING)).to_have_count(0)
    statuses = page.evaluate(
        """async () => {
          const body = new URLSearchParams({ text: "the second one" });
          const ask = async (path) => (await fetch(path, { method: "POST", body, redirect: "manual" })).status;
          return Promise.all(["/issues/T-4/answer", "/issues/T-5/stop", "/issues/T-4/unpark"].map(ask));
        }"""
    )
    assert statuses == [401, 401, 401]
    # A form of one's own, sent as a browser sends it.
    page.evaluate(
        """() => {
          const form = document.createElement("form");
          Object.assign(form, { method: "post", action: "/issues/T-4/unpark" });
          document.body.append(form);
          form.submit();
        }"""
    )
    expect(page.locator("body")).to_contain_text("token")
    assert asking.commands() == commands


def test_the_link_that_is_printed_lets_in_and_the_way_out_is_final(asking: Asking, visitors: Visitors):
    page = visitors.page(asking.url)
    printed = next(word for word in asking.at_work.said().split() if "/login?token=" in word)
    page.goto(printed)
    expect(page).to_have_url(asking.url)
    expect(page.get_by_role("button", name="Stop T-5")).to_be_visible()
    expect(need_of(page, "T-4").get_by_role("button", name="Answer")).to_be_visible()
    assert page.evaluate("document.cookie") == "", "no script reads it"
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("link", name="T-5")).to_be_visible()
    expect(page.locator(CHANGING)).to_have_count(0)
    page.go_back()
    page.reload()
    expect(page.locator(CHANGING)).to_have_count(0)


def test_a_token_that_is_revoked_ends_in_every_browser(asking: Asking, visitors: Visitors):
    page = visitors.page(asking.url)
    token = log_in(page, asking.store)
    stop = page.get_by_role("button", name="Stop T-5")
    expect(stop).to_be_visible()
    assert asking.run("token", "revoke", short(digest_of(token))).returncode == 0
    commands = asking.commands()
    expect(stop).to_have_count(0)  # by itself, as soon as the page is refreshed
    status = page.evaluate("async () => (await fetch('/issues/T-5/stop', { method: 'POST' })).status")
    assert (status, asking.commands()) == (401, commands)


def test_a_page_that_is_given_out_no_more_says_that_it_is_old(asking: Asking, visitors: Visitors):
    """Who looks from elsewhere, by a token that is revoked, is not told that what he sees is fresh."""
    page = visitors.page(asking.url, extra_http_headers={"X-Forwarded-For": "192.0.2.7"})
    token = log_in(page, asking.store, "read")
    expect(page.get_by_role("link", name="T-5")).to_be_visible()
    expect(page.locator("#stale")).to_be_hidden()
    assert asking.run("token", "revoke", short(digest_of(token))).returncode == 0
    expect(page.locator("#stale")).to_contain_text("Stale since")
    since = page.locator("#as-of").inner_text()
    page.wait_for_timeout(4000)
    assert page.locator("#as-of").inner_text() == since
    expect(page.locator("#stale")).to_be_visible()
    log_in(page, asking.store, "read")
    expect(page.locator("#stale")).to_be_hidden()


def test_what_is_decided_again_is_done_again(asking: Asking, visitors: Visitors):
    """However soon they follow each other."""
    page = visitors.page(asking.url)
    log_in(page, asking.store)
    before = len(asking.commands())
    page.goto("/issues/T-5")
    for verb in ("Stop", "Unpark", "Stop", "Unpark"):
        page.get_by_role("button", name=verb).click()
        expect(page.get_by_role("button", name=verb)).to_have_count(0)
    assert [verb for verb, _ in asking.commands()[before:]] == ["stop", "unpark", "stop", "unpark"]
    expect(page.get_by_role("button", name="Stop")).to_be_visible()


def test_a_reader_sees_no_buttons(asking: Asking, visitors: Visitors):
    page = visitors.page(asking.url)
    log_in(page, asking.store, "read")
    expect(page.get_by_role("link", name="T-5")).to_be_visible()
    expect(page.locator(CHANGING)).to_have_count(0)


def test_a_store_without_a_service_is_for_looking(tmp_path, visitors: Visitors):
    """Who has a token may not change anything there either: nobody would carry it out."""
    scene = Asking(tmp_path)
    question = ev.Park(kind="signal", reason="which database?", fingerprint="f")
    new_store(scene.store, ev.Parked(at=1.0, issue_id="4", identifier="T-4", park=question))
    with scene.started("web", "--port", str(free_port())) as served:
        page = visitors.page(served.url())
        log_in(page, scene.store)
        expect(page.locator("#stale")).to_contain_text("The service is not running; sortie run starts it.")
        expect(page.locator("#service")).to_have_text("not running")
        expect(need_of(page, "T-4")).to_contain_text("which database?")
        for path in ("/", "/issues/T-4", "/runs", "/money", "/health"):
            page.goto(path)
            expect(page.locator(CHANGING)).to_have_count(0)
        status = page.evaluate("async () => (await fetch('/issues/T-4/unpark', { method: 'POST' })).status")
    assert (status, scene.commands()) == (403, [])
