"""Pages, questions and scrapes read what they show: nothing that grows with all that ever happened."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from starlette.requests import Request
from starlette.routing import Match, Route

from sortie.store.connect import connect_readonly
from sortie.web import pages
from sortie.web.api_v2_operations import OPERATIONS
from sortie.web.metrics import exposition
from sortie.web.operation import Asked
from sortie.web.site import Site

from ..cli.test_reading_little import OF_THE_PAST, statements
from .api_scene import ENDED_RUN, RUNNING_RUN, Telling, busy_store, whole_run

PAGES = ("/", "/issues/D-4", "/issues/D-1", "/money", "/health", f"/runs/{ENDED_RUN}", f"/runs/{RUNNING_RUN}")


def shown(site: Site, path: str) -> None:
    """The page at this address is made, in this thread."""
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    for route in pages.routes(site):
        match, found = route.matches(scope)
        if match is Match.FULL and isinstance(route, Route):
            assert route.endpoint(Request({**scope, **found})).status_code == 200
            return
    raise AssertionError(f"no page is at {path}")


def scanned(site: Site, asked: list[str]) -> set[str]:
    """The tables that these statements read from one end to the other."""
    found = set()
    with site.looking() as db:
        for statement in asked:
            if statement.lstrip().upper().startswith("SELECT"):
                for *_, detail in db.execute(f"EXPLAIN QUERY PLAN {statement}"):
                    words = detail.split()
                    is_whole = "WHERE" in statement or "LIMIT" not in statement
                    # That index has only what waits, whatever happened before.
                    if words[0] == "SCAN" and is_whole and "commands_waiting" not in words:
                        found.add(words[1])
    return found


def test_a_scrape_reads_through_nothing_that_grows_with_the_past(tmp_path):
    database = busy_store(tmp_path)
    site = Site(database, tmp_path / "WORKFLOW.md", live=Telling())
    with statements() as asked:
        assert exposition(site, "").status_code == 200
    assert len(asked) > 10
    assert scanned(site, asked) & OF_THE_PAST == set()


@pytest.mark.parametrize("name", ["status", "inbox", "issues", "issue", "why", "run", "log", "health", "events"])
def test_a_question_reads_through_nothing_that_grows_with_the_past(tmp_path, name):
    site = Site(busy_store(tmp_path), tmp_path / "WORKFLOW.md", live=Telling())
    (operation,) = (one for one in OPERATIONS if one.name == name)
    names = {"identifier": "D-4", "run_id": "0000000000b-ended"}
    with statements() as asked:
        operation.call(Asked(site, names, operation.query(), None))
    assert scanned(site, asked) & OF_THE_PAST == set()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_reads_through_nothing_that_grows_with_the_past(tmp_path, path):
    site = Site(busy_store(tmp_path), tmp_path / "WORKFLOW.md", live=Telling())
    with statements() as asked:
        shown(site, path)
    assert asked
    assert scanned(site, asked) & OF_THE_PAST == set()


@contextmanager
def work() -> Iterator[list[None]]:
    """As long as the work of the database is meanwhile, through connections for looking."""
    done: list[None] = []

    def opened(frame: FrameType, event: str, answer: Any) -> None:
        if event == "return" and frame.f_code is connect_readonly.__code__ and answer:
            answer.set_progress_handler(lambda: done.append(None), 10)

    sys.setprofile(opened)
    try:
        yield done
    finally:
        sys.setprofile(None)


# That of all runs says how many there are, which SQLite counts in one step.
@pytest.mark.parametrize("path", [*PAGES, "/runs"])
def test_a_page_is_no_more_work_after_many_runs_of_an_issue(tmp_path, path):
    def store(name: str, runs: int) -> Site:
        (tmp_path / name).mkdir()
        began = time.time() - 3000
        past = [one for number in range(runs) for one in whole_run("4", f"again-{number}", began + number)]
        return Site(busy_store(tmp_path / name, *past), tmp_path / name / "WORKFLOW.md", live=Telling())

    found = []
    for site in (store("few", 300), store("many", 1500)):
        with work() as done:
            shown(site, path)
        found.append(len(done))
    few, many = found
    assert many < few * 1.5
