"""What nobody measured, or nobody priced, is a zero on no page, nor called good; what was told is there."""

from __future__ import annotations

import time
from pathlib import Path

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.policy import day_of
from sortie.web.show import NOTHING

from .busy_store import WORKFLOW, Story
from .live_server import new_store, served
from .page_text import Page

PAGES = ("/", "/money", "/money?days=7", "/issues/SHOP-1", "/runs")


def pages(folder: Path, story: Story) -> dict[str, str]:
    """What is read on each of them."""
    (folder / "WORKFLOW.md").write_text(WORKFLOW)
    with served(new_store(folder / "sortie.db", *story.events)) as server:
        return {path: Page(server.get(path, accept="text/html").text).text for path in PAGES}


def unmeasured_run(story: Story) -> str:
    name = story.seen(400, 1)
    run = story.began(300, name)
    story.turns(290, name, run, 1)
    story.ended(200, name, run, 1, usd=0)
    story.settled(199, name, run)
    return name


def charged(story: Story, ago: float, name: str, run: str, usage: Usage) -> None:
    day = day_of(story.now - ago)
    story.add(ago, ev.Charged, usage=usage, day=day, model="one-9", issue_id=name, run_id=run)


def test_where_no_agent_tells_what_it_uses_nothing_looks_free(tmp_path):
    story = Story(time.time())
    unmeasured_run(story)
    shown = pages(tmp_path, story)
    # Of days on which nothing ran it is true.
    assert [path for path, text in shown.items() if "$0.00" in text and path != "/money?days=7"] == []
    assert f"{NOTHING} in 30 days {NOTHING} of $60.00 today 1 run {NOTHING} new tokens" in shown["/money"]
    assert f"{NOTHING} of $60.00 spent today" in shown["/"]
    assert "not told of $60.00" in shown["/"] and "not told of 40.0M" in shown["/"]
    assert "not told of $10.00" in shown["/issues/SHOP-1"]


def test_what_was_told_is_shown_beside_what_was_not(tmp_path):
    """A run that goes on was charged; the one before it told nothing."""
    story = Story(time.time())
    name = unmeasured_run(story)
    run = story.began(100, name, attempt=2)
    story.turns(90, name, run, 1, open_turn=True)
    charged(story, 50, name, run, Usage(1_000_000, 20_000, 700_000, 2.31))
    shown = pages(tmp_path, story)
    for path in ("/", "/money"):
        assert "$2.31 of $60.00" in shown[path]
    assert "SHOP-1 1 1 320.0k 700.0k $2.31" in shown["/money"]
    assert "runs ended 1 (1 not measured) cost $2.31" in shown["/issues/SHOP-1"]


def test_tokens_without_a_price_were_not_free(tmp_path):
    story = Story(time.time())
    name = story.seen(400, 1)
    run = story.began(300, name)
    story.turns(290, name, run, 1)
    used = Usage(3_000_000, 20_000, 700_000)
    charged(story, 210, name, run, used)
    about = {"issue_id": name, "run_id": run}
    story.add(200, ev.RunEnded, status="succeeded", turns=1, usage=used, model="one-9", **about)
    story.settled(199, name, run)
    shown = pages(tmp_path, story)
    assert [path for path, text in shown.items() if "$0.00" in text and path != "/money?days=7"] == []
    assert "claude-code reported tokens without a price: their cost is unknown" in shown["/money"]
    assert "not told of $60.00" in shown["/"] and "3.0M of 40.0M" in shown["/"]
    assert f"3.0M {NOTHING}" in shown["/runs"]


def test_a_day_on_which_nothing_ran_cost_nothing(tmp_path):
    shown = pages(tmp_path, Story(time.time()))
    assert "$0.00 in 30 days $0.00 of $60.00 today 0 runs 0 new tokens" in shown["/money"]
    assert "$0.00 of $60.00 spent today" in shown["/"]


def test_a_disk_of_which_nothing_is_known_is_not_said_to_have_room(tmp_path):
    root = "a" * 300
    (tmp_path / "WORKFLOW.md").write_text(WORKFLOW.replace("---\n", f"---\nworkspace: {{root: {root}}}\n", 1))
    with served(new_store(tmp_path / "sortie.db")) as server:
        text = Page(server.get("/health", accept="text/html").text).text
    assert "not known: workspaces Disks" in text
    assert "have room" not in text
