"""The field that finds an issue: by its name, however that is written, and by what one remembers of it."""

from __future__ import annotations

from typing import Any

import pytest

from sortie.core import events as ev
from sortie.core.model import View
from tests.reports.scene import SECRET

from .live_server import LiveServer, new_store, served
from .page_text import Page

TITLES = {"WEB-1": "Faster search", "WEB-12": "Search by 50%_off", "API-1": f"Rotate {SECRET}"}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("find")
    (folder / "WORKFLOW.md").write_text(f"---\ntracker: {{kind: file, api_key: {SECRET}}}\n---\nDo it\n")
    events: list[ev.AnyEvent] = []
    for name, title in TITLES.items():
        events.append(
            ev.IssueSeen(at=1.0, issue_id=name, view=View(id=name, identifier=name, title=title, state="To Do"))
        )
    about: dict[str, Any] = {"issue_id": "9", "run_id": "r", "identifier": "OLD-7"}
    events.append(ev.Claimed(at=2.0, attempt=1, agent="command", **about))
    events.append(ev.RunEnded(at=3.0, issue_id="9", run_id="r", status="succeeded", turns=1))
    events.append(ev.Settled(at=4.0, why="handed over", **about))
    with served(new_store(folder / "sortie.db", *events)) as server:
        yield server


def sought(server: LiveServer, text: str) -> tuple[int, list[str]]:
    answer = server.get(f"/issues/?named={text}", accept="text/html")
    page = Page(answer.text)
    assert page.faults == []
    return answer.status, [link for link in page.links if link.startswith("/issues/")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("search", ["/issues/WEB-1", "/issues/WEB-12"]),
        ("WEB", ["/issues/WEB-1", "/issues/WEB-12"]),
        ("ld-7", ["/issues/OLD-7"]),
        ("50%25_off", ["/issues/WEB-12"]),
        ("5_%25", []),
        (SECRET[:4], []),
        ("nothing", []),
    ],
)
def test_what_one_remembers_of_an_issue_leads_to_it(many, text, found):
    assert sought(many, text) == (200 if found else 404, found)


def test_a_name_is_found_however_it_is_written(many):
    answer = many.get("/issues/?named=web-1", accept="text/html")
    assert (answer.status, answer.headers["location"]) == (307, "/issues/WEB-1")


def test_what_is_not_found_is_told_as_text_and_leads_to_the_runs(many):
    page = Page(many.get("/issues/?named=%3Cb%3Enobody%E2%80%AE", accept="text/html").text)
    assert r"No issue is called <b>nobody\u202e, and none contains it" in page.text
    assert "/runs?text=%3Cb%3Enobody%E2%80%AE" in page.links


def test_an_address_of_an_issue_that_nobody_knows_is_not_sought(many):
    answer = many.get("/issues/search", accept="text/html")
    assert (answer.status, "search is not known here." in Page(answer.text).text) == (404, True)
