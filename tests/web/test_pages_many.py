"""A thousand issues: pages stay small, and every issue is reached."""

from __future__ import annotations

import time

import pytest

from sortie.core import events as ev
from sortie.core.model import Park, View

from .live_server import new_store, served
from .page_text import Page

PARKED = 300


def _seen(number: int, at: float) -> ev.AnyEvent:
    view = View(id=f"I-{number}", identifier=f"I-{number}", title=f"Issue number {number} of many", state="To Do")
    return ev.IssueSeen(at=at, issue_id=f"I-{number}", view=view)


def _parked(number: int, at: float) -> ev.AnyEvent:
    park = Park(kind="signal", reason="Which one? " * 50, fingerprint="f")
    return ev.Parked(at=at, issue_id=f"I-{number}", identifier=f"I-{number}", park=park)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    now = time.time()
    events = [_seen(number, now) for number in range(1000)] + [_parked(number, now) for number in range(PARKED)]
    with served(new_store(tmp_path_factory.mktemp("many") / "sortie.db", *events)) as server:
        yield server


def read(server, path: str, most: int) -> Page:
    answer = server.get(path)
    assert answer.status == 200, answer.text[:500]
    assert len(answer.body) < most, len(answer.body)
    return Page(answer.text)


def test_a_thousand_issues_are_a_small_page_with_all_of_their_numbers(many):
    page = read(many, "/", 100_000)
    assert "Needs you 300" in page.text and "Ready 700" in page.text


def test_every_one_of_many_is_reached_by_paging(many):
    found = set()
    for number in range(1, 29):
        found |= {
            one
            for one in read(many, f"/?ready={number}&needs={number}", 100_000).links
            if one.startswith("/issues/")
        }
    assert len(found) == 1000


def test_a_page_behind_the_last_one_is_the_last_one(many):
    assert "page 28 of 28" in read(many, "/?ready=4000", 100_000).text
    assert "page 1 of 28" in read(many, "/?ready=-7&held=x&needs=" + "9" * 500, 100_000).text
