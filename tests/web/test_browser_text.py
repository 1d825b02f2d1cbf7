"""Whatever trackers and agents say is text in a real browser: it runs nothing, hides nothing, and the page stays
usable."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.cli.scene import WAIT, wait_until
from tests.npm import TIME_TO_INSTALL

from .browsed_scene import BrowsedScene
from .browser import DESK, PHONE, Visitors, does_not_scroll_sideways, log_in

pytestmark = TIME_TO_INSTALL

# Each would leave a trace if a browser took it for more than text.
MEAN = (
    "<script>window.owned=1</script><img src=x onerror=window.owned=2><svg onload=window.owned=3>"
    "\"'><iframe srcdoc='<script>parent.owned=4</script>'></iframe><a href=javascript:window.owned=5>click</a>"
    "</textarea></title></details><style>body{display:none}</style><base href=//evil.example>"
)
MEAN_BYTES = MEAN + r"\033[31mred\033[0m\033]8;;http://evil.example\007link\033]8;;\007 \342\200\256gnitirw"
A_MEGABYTE = "head -c 1000000 /dev/zero | tr '\\0' 'A'"
# Says all of it, in its standard output, its errors and its reason, and once without an end.
SPEAKS = f"""
printf '%b\\n' "$(cat "$base/mean")"; printf '%b\\n' "$(cat "$base/mean")" >&2
{A_MEGABYTE}; echo; echo "the last word"
mkdir -p .sortie; {{ echo blocked; printf 'reason: '; printf '%b' "$(cat "$base/mean")"; }} > .sortie/status
"""
LONG_REASON = f"""
mkdir -p .sortie; {{ echo blocked; printf 'reason: '; {A_MEGABYTE}; }} > .sortie/status
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    scene = BrowsedScene(tmp_path_factory.mktemp("hostile"))
    (scene.directory / "mean").write_text(MEAN_BYTES)
    scene.issue(
        1, SPEAKS, title=MEAN + " \x1b[31mred\x1b[0m \u202egnitirw", labels=[MEAN], url="javascript:alert(1)"
    )
    scene.issue(2, LONG_REASON, title="B" * 1_000_000)
    scene.issue(3, 'printf "%b\\n" "$(cat "$base/mean")"\n' + WAIT.replace("echo standing by;", ""), title=MEAN)
    with scene.browsed():
        wait_until(lambda: scene.parked() == {"T-1", "T-2"})
        yield scene


def runs_of(page: Page, identifier: str) -> str:
    page.goto(f"/issues/{identifier}")
    return str(page.get_by_role("link", name="whole run").get_attribute("href"))


def assert_is_text(page: Page) -> None:
    assert page.evaluate("window.owned") is None
    foreign = (
        "img, iframe, object, embed, main style, base, main script, a[href^='javascript'], [onerror], [onload]"
    )
    expect(page.locator(foreign)).to_have_count(0)
    assert page.evaluate("[...document.scripts].every(one => one.src.startsWith(location.origin + '/static/'))")
    shown = page.locator("body").inner_text()
    assert not any(hidden in shown for hidden in "\x1b\u202e\u2066\x00")
    for size in (PHONE, DESK):
        page.set_viewport_size(size)
        expect(page.locator("nav")).to_be_visible()
        assert does_not_scroll_sideways(page)


def test_what_strangers_say_stays_text_on_every_page(hostile: BrowsedScene, visitors: Visitors):
    page = visitors.page(hostile.url)
    log_in(page, hostile.store)
    paths = ["/", "/issues/T-1", "/issues/T-2", "/issues/T-3", "/runs", "/money", "/health"]
    for path in [*paths, runs_of(page, "T-1"), runs_of(page, "T-3")]:
        page.goto(path)
        assert_is_text(page)
        assert page.evaluate("document.body.innerText.length") < 100_000
    expect(page.locator("body")).to_contain_text("<script>window.owned=1</script>")


def test_a_page_full_of_it_is_refreshed_and_used_like_any_other(hostile: BrowsedScene, visitors: Visitors):
    page = visitors.page(hostile.url)
    log_in(page, hostile.store)
    page.goto("/issues/T-2")
    expect(page.locator("#question .question")).to_contain_text("A" * 1000)
    page.goto("/issues/T-1")
    expect(page.locator("#transcript")).to_contain_text("the last word")
    expect(page.locator("#transcript")).to_contain_text("red")
    expect(page.locator("#question")).to_contain_text("<script>window.owned=1</script>")
    expect(page.locator("#question")).to_contain_text(r"\u202egnitirw")
    answer = f"No. {MEAN}"
    page.locator("#question textarea").fill(answer)
    page.locator("#question").get_by_role("button", name="Answer").click()
    expect(page.locator(".reply-ok")).to_be_visible()
    expect(page.locator("#timeline")).to_contain_text(f"a person answered: {answer}"[:120])
    expect(page.locator("#question")).to_contain_text("<script>")  # it asks once more: the page came back by itself
    assert_is_text(page)
