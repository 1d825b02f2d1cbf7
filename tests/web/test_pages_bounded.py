"""However much an agent changed, said and was told: pages that show it stay small, and say what they leave out."""

from __future__ import annotations

import re
import time

import pytest

from sortie.reports.run_detail import latest_run
from sortie.runs.prompt_log import keep_prompt, prompts_path
from sortie.runs.run_log import RunLog, log_path
from sortie.web.site import Site

from .busy_store import busy_store
from .live_server import served
from .page_text import Page

PROMPTS, LINES = 60, 160
# What may be shown of changes, prompts and the transcript, and the rest of the page.
MOST = 1_500_000


@pytest.fixture(scope="module")
def run_id(large):
    with large.site.looking() as db:
        run = latest_run(db, "SHOP-1", hide=str)
    assert run
    return run.run_id


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    store = busy_store(folder, repository=True)
    with Site(store, folder / "WORKFLOW.md").looking() as db:
        run = latest_run(db, "SHOP-1", hide=str)
    assert run
    for number in range(100):
        (folder / "workspaces" / "SHOP-1" / f"long{number:03}.txt").write_text("a line of it\n" * 2_900)
    for turn in range(2, PROMPTS + 1):
        keep_prompt(prompts_path(store, run.run_id), turn, time.time(), f"told in turn {turn} " + "p" * 100_000)
    log = RunLog(log_path(store, run.run_id))
    for number in range(LINES):
        log.write(time.time(), "agent", f"said as number {number}. " + "s" * 16_000)
    log.close()
    with served(store) as server:
        yield server


def test_a_hundred_long_changed_files_are_a_small_page_that_says_what_it_leaves_out(large):
    answer = large.get("/issues/SHOP-1")
    assert len(answer.body) < MOST
    page = Page(answer.text)
    assert page.faults == []
    assert "long000.txt" in page.text and "long099.txt" in page.text
    assert answer.text.count('<pre class="d-add">') < 5_000
    assert "Not shown are 99 files with 287,100 changed lines: look in the workspace." in page.text
    assert len(large.get("/api/v2/issues/SHOP-1/changes").body) < MOST


@pytest.mark.parametrize("path", ["/issues/SHOP-1", "/runs/{run_id}"])
def test_of_many_long_prompts_the_newest_are_shown_and_the_others_counted(large, run_id, path):
    answer = large.get(path.format(run_id=run_id))
    assert len(answer.body) < MOST
    shown = [int(turn) for turn in re.findall(r"told in turn (\d+) ", answer.text)]
    assert shown == [*range(PROMPTS, PROMPTS - len(shown), -1)] and len(shown) >= 3
    kept = len(large.get(f"/api/v2/runs/{run_id}/prompts").json["prompts"])
    assert f"and {kept - len(shown)} earlier prompts" in Page(answer.text).text
    assert f'href="/api/v2/runs/{run_id}/prompts"' in answer.text


def test_a_transcript_of_long_lines_is_shown_in_pages_that_lead_to_all_of_it(large, run_id):
    said, path = list[int](), f"/runs/{run_id}"
    while path:
        answer = large.get(path)
        assert len(answer.body) < MOST
        said = [int(number) for number in re.findall(r"said as number (\d+)\.", answer.text)] + said
        earlier = re.search(r'<a rel="prev" href="([^"]+)"', answer.text)
        path = earlier[1].replace("&amp;", "&").partition("#")[0] if earlier else ""
    assert said == [*range(said[0], LINES)] and len(said) > 100


def test_the_page_of_an_issue_says_that_its_transcript_is_the_end_of_one(large):
    answer = large.get("/issues/SHOP-1")
    assert 3 <= len(re.findall(r"said as number \d+\.", answer.text)) < LINES
    assert "the end of it" in Page(answer.text).text
