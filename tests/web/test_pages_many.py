"""A thousand issues, and a run of very many events: pages stay small, every issue is reached, nothing is dropped
without a word."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sortie.core import events as ev
from sortie.core.model import Park, View
from sortie.reports.run_detail import MOST_EVENTS

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
    page = Page(answer.text)
    assert page.faults == []
    return page


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


def test_who_turns_the_pages_of_one_list_stays_where_he_is_in_the_others(many):
    page = read(many, "/?ready=3&needs=2&reply=x&long=" + "9" * 500, 100_000)
    assert {"/?ready=4&needs=2#ready", "/?ready=3&needs=3#needs-you"} <= set(page.links)
    headers = {"authorization": many.bearer()}
    forms = Page(many.get("/?ready=3&needs=2&reply=x", **headers).text).named("input")
    assert {one["value"] for one in forms if one["name"] == "back"} == {"/?ready=3&needs=2"}


def test_several_needs_that_are_about_no_issue_are_told_apart(tmp_path):
    """A page is brought up to date by the names of what is on it."""
    fault: dict[str, Any] = {"at": time.time(), "until": time.time(), "error_kind": "agent_auth"}
    held = ev.Skipped(at=time.time(), issue_id="I-1", identifier="I-1", rule="day-budget")
    faults = [ev.ProviderPaused(provider=provider, **fault) for provider in ("codex", "claude-code")]
    theirs = [
        ev.IssueSeen(
            at=1.0, issue_id=name, view=View(id=name, identifier=name, title="", state="To Do", agent=name)
        )
        for name in ("codex", "claude-code")
    ]
    with served(new_store(tmp_path / "sortie.db", _seen(1, time.time()), held, *theirs, *faults)) as server:
        needs = [one["id"] for one in read(server, "/", 100_000).named("article")]
        assert len(needs) == 3
        assert [one["id"] for one in read(server, "/", 100_000).named("article")] == needs


NOTES, CALLS = 230, 320
NOTICE = "This run has more events than are read here"


def talkative_run(issue: str, run: str, lines: int) -> list[ev.AnyEvent]:
    """One that goes on, with as many notes of small things before its calls and notes."""
    about: dict[str, Any] = {"issue_id": issue, "run_id": run}
    now = time.time()
    begun = ev.Claimed(at=now, identifier=issue, attempt=1, agent="codex", day="2026-11-18", **about)
    turn = ev.TurnStarted(at=now, turn=1, day="2026-11-18", **about)
    small = (ev.SessionStarted(at=now, session_id=f"s{number}", **about) for number in range(lines))
    calls = (
        ev.ToolCalled(at=now, tool="tracker_api", result="success", ms=1.0, target=f"call-{number}", **about)
        for number in range(CALLS)
    )
    notes = (ev.Noted(at=now, level="info", message=f"note-{number}", **about) for number in range(NOTES))
    return [begun, turn, *small, *calls, *notes]


@pytest.fixture(scope="module")
def talkative(tmp_path_factory):
    events = [*talkative_run("I-1", "r-short", 0), *talkative_run("I-2", "r-long", MOST_EVENTS)]
    with served(new_store(tmp_path_factory.mktemp("talkative") / "sortie.db", *events)) as server:
        yield server


@pytest.mark.parametrize("path", ["/runs/r-short", "/runs/r-long", "/issues/I-1", "/issues/I-2"])
def test_of_many_calls_and_notes_the_newest_are_shown_and_the_others_counted(talkative, path):
    text = read(talkative, path, 500_000).text
    assert "call-319" in text and "call-20 " in text and "call-19 " not in text
    assert "and 20 earlier ones" in text
    if path.startswith("/runs"):
        assert "note-229" in text and "note-30" in text and "note-29 " not in text
        assert "and 30 earlier ones" in text


@pytest.mark.parametrize(("run", "issue", "is_cut"), [("r-short", "I-1", False), ("r-long", "I-2", True)])
def test_a_run_that_is_not_read_whole_says_so_and_its_turn_is_there(talkative, run, issue, is_cut):
    for path in (f"/runs/{run}", f"/issues/{issue}"):
        assert (NOTICE in read(talkative, path, 500_000).text) == is_cut
    assert "turns in it 1" in read(talkative, f"/issues/{issue}", 500_000).text
    assert "Turns 1" in read(talkative, f"/runs/{run}", 500_000).text
