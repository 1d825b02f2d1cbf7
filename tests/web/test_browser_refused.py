"""What is not taken is told of in the page, and what a person wrote stays where he wrote it."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Locator, Page, expect

from sortie.store.web_tokens import short
from sortie.web.tokens import digest_of
from tests.cli.scene import BLOCK, wait_until
from tests.npm import TIME_TO_INSTALL

from .browsed_scene import BrowsedScene
from .browser import Visitors, log_in
from .server_scene import free_port

pytestmark = TIME_TO_INSTALL

TEXT = "Take the old key, and say so in the notes."


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    scene = BrowsedScene(tmp_path_factory.mktemp("refused"))
    for number in (1, 2, 3):
        scene.issue(number, BLOCK)
    with scene.browsed():
        wait_until(lambda: len(scene.parked()) == 3)
        yield scene


def settle_in_tracker(scene: BrowsedScene, identifier: str) -> None:
    tracker = scene.directory / "issues.json"
    issues = json.loads(tracker.read_text())
    next(one for one in issues if one["identifier"] == identifier)["state"] = "Done"
    tracker.write_text(json.dumps(issues))


def need_of(page: Page, identifier: str) -> Locator:
    return page.locator("#needs-you article", has=page.get_by_role("link", name=identifier, exact=True))


def box_of(page: Page, identifier: str) -> Locator:
    return page.get_by_label(f"Answer to {identifier}", exact=True)


def send(page: Page, identifier: str) -> None:
    need_of(page, identifier).get_by_role("button", name="Answer", exact=True).click()


def refusal(page: Page) -> Locator:
    return page.get_by_role("alert").and_(page.locator("#reply.reply-refused"))


def is_uncovered(part: Locator) -> bool:
    """Nothing stands before its upper left corner."""
    found = """one => {
      const at = one.getBoundingClientRect();
      return one.contains(document.elementFromPoint(at.left + 8, at.top + 8));
    }"""
    return bool(part.evaluate(found))


def until_asked_again(page: Page) -> None:
    """The page has asked for itself twice more, so that what the first answer did to it is done."""
    for _ in range(2):
        with page.expect_response(lambda answer: answer.request.method == "GET" and answer.url == page.url):
            pass


def test_with_a_token_that_is_revoked(asking: BrowsedScene, visitors: Visitors):
    page = visitors.page(asking.url)
    token = log_in(page, asking.store)
    box_of(page, "T-1").fill(TEXT)
    assert asking.run("token", "revoke", short(digest_of(token))).returncode == 0
    expect(page.locator("#stale")).to_contain_text("Your text has no place in the page as it is now")
    expect(box_of(page, "T-1")).to_have_value(TEXT)
    send(page, "T-1")
    expect(refusal(page)).to_contain_text("401")
    expect(refusal(page)).to_contain_text("This needs a token; sortie token new prints a link")
    expect(refusal(page)).to_contain_text("What you wrote is still there.")
    expect(refusal(page)).to_be_in_viewport()
    until_asked_again(page)
    expect(box_of(page, "T-1")).to_have_value(TEXT)
    expect(refusal(page)).to_be_visible()
    log_in(page.context.new_page(), asking.store)
    expect(page.locator("#stale")).to_be_hidden()
    expect(box_of(page, "T-1")).to_have_value(TEXT)
    send(page, "T-1")
    expect(page.locator(".reply-ok")).to_be_visible()
    expect(refusal(page)).to_have_count(0)
    (comment,) = wait_until(lambda: asking.answers_in_tracker("T-1"))
    assert TEXT in comment


def test_that_is_too_large(asking: BrowsedScene, visitors: Visitors):
    page = visitors.page(asking.url)
    log_in(page, asking.store)
    page.set_viewport_size({"width": 1280, "height": 240})
    much = "word " * 240_000
    box_of(page, "T-2").evaluate("(box, text) => { box.value = text; }", much)
    send(page, "T-2")
    expect(refusal(page)).to_contain_text("413")
    expect(refusal(page)).to_contain_text("The body of the request is larger than 1 MiB.")
    assert page.evaluate("scrollY") > 0
    assert is_uncovered(refusal(page))
    until_asked_again(page)
    assert box_of(page, "T-2").input_value() == much
    expect(refusal(page)).to_be_visible()
    box_of(page, "T-2").fill(TEXT)
    send(page, "T-2")
    expect(page.locator(".reply-ok")).to_be_visible()


def test_on_a_question_that_somebody_else_has_settled(asking: BrowsedScene, visitors: Visitors):
    page = visitors.page(asking.url)
    log_in(page, asking.store)
    box_of(page, "T-3").fill(TEXT)
    settle_in_tracker(asking, "T-3")
    expect(page.locator("#stale")).to_contain_text("Your text has no place in the page as it is now")
    send(page, "T-3")
    expect(page.locator("#reply.reply-refused")).to_be_visible()
    expect(box_of(page, "T-3")).to_have_value(TEXT)
    box_of(page, "T-3").fill("")
    expect(need_of(page, "T-3")).to_have_count(0)
    expect(page.locator("#stale")).to_be_hidden()


def test_when_the_server_is_gone(tmp_path, visitors: Visitors):
    scene, port = BrowsedScene(tmp_path), free_port()
    scene.issue(1, BLOCK)
    with scene.running(port) as service:
        page = visitors.page(service.url())
        log_in(page, scene.store)
        box_of(page, "T-1").fill(TEXT)
        service.popen.kill()
        service.wait()
        expect(page.locator("#stale")).to_contain_text("Stale since")
        send(page, "T-1")
        expect(refusal(page)).to_contain_text("The server did not answer")
        expect(refusal(page)).to_contain_text("What you wrote is still there.")
    with scene.running(port):
        expect(page.locator("#stale")).to_be_hidden()
        expect(refusal(page)).to_be_visible()
        expect(box_of(page, "T-1")).to_have_value(TEXT)
        send(page, "T-1")
        expect(page.locator(".reply-ok")).to_be_visible()
        (comment,) = wait_until(lambda: scene.answers_in_tracker("T-1"))
        assert TEXT in comment
