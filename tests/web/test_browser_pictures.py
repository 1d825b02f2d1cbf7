"""Every page, as it is shown in the documentation: pictures of a real service, plan and session of agents.

`SORTIE_SCREENSHOTS=1` writes them into docs/images; else they are only taken.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.cli.scene import wait_until
from tests.npm import TIME_TO_INSTALL

from .browser import PHONE, Visitors, does_not_scroll_sideways, log_in
from .server_scene import ServerScene, free_port
from .shown_project import Shop

pytestmark = TIME_TO_INSTALL

ROOT = Path(__file__).parents[2]
LARGEST = 150_000
WINDOW: ViewportSize = {"width": 1280, "height": 690}
IMAGES = ROOT / "docs" / "images"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """With a name that can be shown to people."""
    with tempfile.TemporaryDirectory(prefix="project-") as name:
        yield Path(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if os.environ.get("SORTIE_SCREENSHOTS") != "1":
        return tmp_path
    IMAGES.mkdir(exist_ok=True)
    return IMAGES


def take(page: Page, path: Path) -> None:
    """What is in the window, with nothing pointed at and nothing that blinks."""
    assert does_not_scroll_sideways(page)
    page.mouse.move(0, 0)
    page.screenshot(path=path, animations="disabled", caret="hide")
    picture = path.read_bytes()
    size = page.viewport_size
    assert size and picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24]) == (size["width"], size["height"])
    assert len(picture) > 10_000
    assert len(picture) < LARGEST or path.parent != IMAGES


@pytest.fixture(scope="module")
def shop(place: Path) -> Iterator[Shop]:
    (place / "shop").mkdir()
    scene = Shop(place / "shop")
    scene.write()
    with scene.browsed():
        wait_until(lambda: scene.parked() == {"SHOP-118", "SHOP-122"})
        yield scene


def test_the_pages_of_a_service(shop: Shop, visitors: Visitors, folder: Path):
    page = visitors.page(shop.url, size=WINDOW)
    log_in(page, shop.store)
    for last_line in ("Running the tests", "Writing a test", "Comparing the contrast"):
        expect(page.locator("#running")).to_contain_text(last_line)
    expect(page.locator("#reviews")).to_contain_text("SHOP-119")
    expect(page.locator("#reviews")).to_contain_text("SHOP-121")
    expect(page.locator("#waiting")).to_contain_text("SHOP-124")
    take(page, folder / "now.png")
    page.emulate_media(color_scheme="dark")
    take(page, folder / "now-dark.png")
    page.emulate_media(color_scheme="light")
    page.goto("/issues/SHOP-118")
    expect(page.locator("#question")).to_contain_text("the day of the order")
    take(page, folder / "issue.png")
    page.locator("#transcript details").first.locator("summary").click()
    page.locator("#changes details").first.locator("summary").click()
    expect(page.locator("#changes .diff").first).to_be_visible()
    page.locator("#transcript").evaluate("part => scrollTo(0, part.offsetTop - 60)")
    take(page, folder / "issue-transcript.png")
    page.goto("/runs")
    expect(page.locator("tbody tr").nth(10)).to_be_visible()
    take(page, folder / "runs.png")
    page.goto("/money")
    expect(page.locator("#plot-cost canvas")).to_be_visible()
    expect(page.get_by_role("row", name="command not named")).not_to_contain_text("$")  # what nobody measured
    take(page, folder / "money.png")
    page.goto("/health")
    expect(page.locator("#plot-lag canvas")).to_be_visible()
    take(page, folder / "health.png")


def test_the_first_page_on_a_phone(shop: Shop, visitors: Visitors, folder: Path):
    page = visitors.page(shop.url, size=PHONE)
    log_in(page, shop.store)
    expect(page.locator("#running")).to_contain_text("Running the tests")
    take(page, folder / "now-phone.png")


def test_the_page_of_a_plan(tmp_path: Path, visitors: Visitors, folder: Path):
    shutil.copytree(ROOT / "examples/plan", tmp_path / "notes")
    scene = ServerScene(tmp_path)
    script = tmp_path / "notes/agents/benchmarks.sh"
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done\n"
    script.write_text(
        script.read_text().replace('"checking the numbers" 0 2\n', f'"checking the numbers" 0 2\n{wait}')
    )
    with scene.started("plan", "run", "notes/plan.yaml", "--port", str(free_port())) as service:
        page = visitors.page(service.url(), size=WINDOW)
        page.goto("/plan")
        expect(page.locator(".graph .b-escalated")).to_have_count(1)
        expect(page.locator(".graph .b-running")).to_contain_text("step 0/2")
        take(page, folder / "plan.png")


def test_the_page_of_peers(tmp_path: Path, place: Path, visitors: Visitors, folder: Path):
    """Until one has objected to what the other did, and sent him mail."""
    root = place / "greetings"
    shutil.copytree(ROOT / "examples/peers", root)
    scene = ServerScene(tmp_path)
    git = ["git", "-c", "user.name=Maintainer", "-c", "user.email=maintainer@localhost"]

    def commit() -> None:
        for command in (["add", "-A"], ["commit", "-qm", "A turn"]):
            subprocess.run([*git, *command], cwd=root, check=True, capture_output=True)

    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for command in (
        ["peers", "init"],
        ["charter", "adopt"],
        ["turn", "ada", "--task", "Greet in two languages."],
        ["turn", "ben", "--kind", "review"],
    ):
        commit()
        done = subprocess.run(scene.command(*command), cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with scene.started("web", str(root / ".git/sortie/peers.db"), "--port", str(free_port())) as served:
        page = visitors.page(served.url(), size=WINDOW)
        page.goto("/peers")
        expect(page.locator("#stale")).to_have_text("No agent has a turn now; sortie turn starts one.")
        expect(page.locator(".board")).to_contain_text("What is said in a language that we do not speak?")
        take(page, folder / "peers.png")
