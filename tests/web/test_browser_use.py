"""The pages in the hand of different people: who has a keyboard alone, a phone, a thousand issues, three hundred
tasks."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.policy import day_of
from tests.cli.scene import BLOCK, REVIEW, WAIT, wait_until
from tests.npm import TIME_TO_INSTALL

from .browsed_scene import BrowsedScene
from .browser import PHONE, Visitors, does_not_scroll_sideways, log_in
from .live_server import new_store
from .server_scene import free_port

pytestmark = TIME_TO_INSTALL

MANY = 1_000
# What has the focus, in words, and whether it can be seen that it has.
FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const at = one.getBoundingClientRect();
  const inside = at.width > 0 && at.right > 0 && at.left < innerWidth && at.bottom > 0 && at.top < innerHeight;
  return {
    tag: one.tagName,
    name: one.getAttribute("aria-label") || one.textContent.trim().slice(0, 40),
    seen: inside && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
  };
}"""


def past_runs(now: float) -> list[ev.AnyEvent]:
    """A thousand of them, in the days before."""
    events: list[ev.AnyEvent] = []
    for number in range(MANY):
        at, name = now - 90_000 - number * 60, f"OLD-{number}"
        about: dict[str, Any] = {"issue_id": f"old-{number}", "run_id": f"{number:011x}-old"}
        usage = Usage(1_000 + number, 100, 500, 0.01 * (number % 50))
        events += [
            ev.Claimed(at=at, identifier=name, attempt=1, agent="command", day=day_of(at), **about),
            ev.RunEnded(at=at + 30, status="succeeded", turns=1, usage=usage, **about),
            ev.Settled(at=at + 31, identifier=name, why="handed over", **about),
        ]
    return sorted(events, key=lambda event: event.at)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A thousand issues and a thousand runs: some ask, some wait, one works, all others are ready."""
    scene = BrowsedScene(tmp_path_factory.mktemp("many"))
    new_store(scene.store, *past_runs(time.time()))
    scene.workflow.write_text(
        scene.workflow.read_text().replace("max_turns: 3", "max_turns: 3\n  max_concurrent_agents: 1")
    )
    for number in (1, 2, 3):
        scene.issue(number, BLOCK, priority=1)
    scene.issue(4, "seq 1 400; " + WAIT + REVIEW, priority=2)
    issues = json.loads((scene.directory / "issues.json").read_text())
    title = "One issue of very many, with a title of some length"
    issues += [{"id": f"{n}", "identifier": f"T-{n}", "title": title, "state": "To Do"} for n in range(5, MANY + 1)]
    (scene.directory / "issues.json").write_text(json.dumps(issues))
    with scene.browsed():
        wait_until(lambda: len(scene.parked()) == 3)
        yield scene


@pytest.fixture
def page(many: BrowsedScene, visitors: Visitors) -> Page:
    page = visitors.page(many.url)
    log_in(page, many.store)
    expect(page.locator("#running")).to_contain_text("standing by")
    return page


def tab_to(page: Page, wanted: str) -> None:
    """By the tab key alone; everything on the way must show that it has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        assert focused["seen"], focused
        if re.search(wanted, focused["name"]):
            return
    raise AssertionError(f"the tab key does not lead to {wanted}")


def until_opened(page: Page, where: str) -> None:
    """And understands keys: its scripts run later than its address is shown."""
    expect(page).to_have_url(re.compile(where))
    expect(page.locator("body")).to_have_class(re.compile("is-live"))


def test_by_keys_one_skips_moves_finds_and_asks_for_help(page: Page):
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    assert page.evaluate(FOCUSED)["seen"]
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("?")
    page.keyboard.press("Enter")  # its button has the focus
    expect(page.get_by_role("dialog")).to_be_hidden()
    for key, where in (("r", "/runs"), ("m", "/money"), ("h", "/health"), ("n", "/"), ("i", "/#needs-you")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        until_opened(page, rf"{re.escape(where)}$")
    for key, row in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        expect(page.locator("#needs-you article").nth(row).get_by_role("link")).to_be_focused()
        assert page.evaluate(FOCUSED)["seen"]
    page.keyboard.press("Enter")
    until_opened(page, r"/issues/T-\d$")
    page.keyboard.press("/")
    page.keyboard.type("T-4")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("T-4")


def test_by_keys_one_reaches_the_form_and_answers(page: Page, many: BrowsedScene):
    page.goto("/issues/T-3")
    tab_to(page, "Answer to T-3")
    page.keyboard.type("gr? Take the other key.")  # in a text these are letters
    expect(page.locator("textarea")).to_have_value("gr? Take the other key.")
    tab_to(page, "^Answer$")
    page.keyboard.press("Enter")
    expect(page.locator(".reply-ok")).to_be_visible()
    assert ("answer", "3") in many.commands()
    (comment,) = wait_until(lambda: many.answers_in_tracker("T-3"))
    assert "gr? Take the other key." in comment


def test_a_thousand_issues_and_runs_stay_usable(page: Page):
    expect(page.locator("#ready .tally")).to_have_text(re.compile("99[0-9]"))
    assert page.locator("[data-row]").count() < 120
    page.locator("#ready").get_by_role("link", name="next").click()
    expect(page.locator("#ready")).to_contain_text("page 2 of 40")
    page.goto("/runs")
    expect(page.locator(".pages")).to_contain_text("1,00")
    page.get_by_role("link", name="Cost").click()
    expect(page.locator("tbody tr").first).to_contain_text("$0.49")
    page.get_by_label("Text").fill("OLD-777")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody tr").get_by_role("link", name="OLD-777").click()
    expect(page.locator("h1")).to_have_text("OLD-777")


def test_a_phone_shows_every_page_in_its_width(page: Page):
    page.set_viewport_size(PHONE)
    run = "/runs/00000000007-old"
    for path in ("/", "/issues/T-1", "/issues/T-4", "/runs", run, "/money?days=7", "/money", "/health", "/nowhere"):
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)
        assert does_not_scroll_sideways(page), path
    page.goto("/")
    answer = page.locator("#needs-you textarea").first
    answer.fill("On my way.")
    expect(answer).to_be_in_viewport()
    assert does_not_scroll_sideways(page)


def test_no_width_of_a_window_cuts_a_column(page: Page):
    cut = """() => [...document.querySelectorAll("main table")].filter((table) =>
      table.getBoundingClientRect().right > table.closest(".panel").getBoundingClientRect().right + 1)
      .map((table) => table.textContent.trim().slice(0, 40))"""
    for path in ("/", "/issues/T-1", "/runs", "/money?days=7", "/health"):
        page.goto(path)
        for width in (320, 600, 761, 800, 860, 950, 1024, 1100, 1180, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert does_not_scroll_sideways(page), (path, width)
            assert page.evaluate(cut) == [], (path, width)


def test_on_a_phone_a_decision_and_the_last_words_are_not_behind_all_that_was_said(page: Page):
    page.set_viewport_size(PHONE)
    page.goto("/issues/T-4")
    expect(page.get_by_role("button", name="Stop")).to_be_in_viewport()
    said = page.locator("#transcript .tail")
    said.evaluate("part => part.scrollIntoView({ block: 'center' })")
    expect(said.get_by_text("standing by")).to_be_in_viewport()
    expect(said.get_by_text("300", exact=True)).not_to_be_in_viewport()
    box = said.bounding_box()
    assert box and box["height"] < PHONE["height"]


def waits_for(layer: int, place: int) -> list[str]:
    return [f"t{layer - 1:02}-{(place + step) % 10}" for step in range(3)] if layer else []


def test_a_plan_of_three_hundred_tasks_is_drawn_and_a_task_opens(tmp_path, visitors: Visitors):
    """Thirty layers of ten, each task waiting for three of the layer before."""
    agent = {"kind": "command", "command": "true"}
    about = {"objective": "Do it.", "success_criteria": ["It is done."], "outputs": ["result.md"], "agent": agent}
    tasks = [
        {"name": f"t{layer:02}-{place}", "depends_on": waits_for(layer, place), **about}
        for layer in range(30)
        for place in range(10)
    ]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({"name": "big", "tasks": tasks}))
    (tmp_path / "plan.work").mkdir()
    new_store(tmp_path / "plan.work" / ".sortie.db")
    scene = BrowsedScene(tmp_path)
    with scene.started("web", "plan.yaml", "--port", str(free_port())) as served:
        page = visitors.page(served.url())
        page.goto("/plan")
        expect(page.locator(".graph .box")).to_have_count(300)
        assert does_not_scroll_sideways(page)
        task = page.locator(".graph").get_by_role("link", name=re.compile("^t12-3:"))
        task.scroll_into_view_if_needed()
        expect(task).to_be_in_viewport()
        task.click()
        expect(page.locator("h1")).to_contain_text("t12-3")
        expect(page.locator("main")).to_contain_text("Do it.")
        for path in ("/plan", "/plan/t12-3", "/"):
            page.set_viewport_size(PHONE)
            page.goto(path)
            assert does_not_scroll_sideways(page), path
