"""A story page by page: every entry once, whatever the log holds, and no more read than a page needs."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

import msgspec
import pytest

from sortie.core import events as ev
from sortie.core.policy import Policy
from sortie.reports.timeline import MOST_READ, Timeline, timeline
from sortie.store.connect import connect_writer

from .scene import NOW, SECRET, hidden, steps


def story(db: sqlite3.Connection, issue: str = "1", **more: Any) -> Timeline:
    return timeline(db, issue, now=NOW, served=True, hide=hidden, policy=Policy(), **more)


def notes(count: int) -> list[ev.AnyEvent]:
    """Every third is loud."""
    levels: tuple[ev.Level, ...] = ("debug", "info", "debug")
    return [
        ev.Noted(at=NOW + n, issue_id="1", level=levels[n % 3], message=f"note {n}", detail=SECRET)
        for n in range(count)
    ]


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_the_pages_together_are_the_whole_story(filled, everything, limit):
    db = filled(notes(30))
    told, before = list[str](), None
    while True:
        page = story(db, before=before, limit=limit, everything=everything)
        assert len(page.entries) <= limit
        assert page.entries or not everything, "no page is empty"
        assert [entry.seq for entry in page.entries] == sorted(entry.seq for entry in page.entries)
        told = [entry.text for entry in page.entries] + told
        before = page.more_before
        if before is None:
            break
    wanted = range(30) if everything else range(1, 30, 3)
    assert told == [f"note {n}: [redacted]" for n in wanted]


def test_small_steps_that_are_left_out_do_not_make_a_page_read_everything(filled):
    quiet = [ev.Noted(at=NOW, issue_id="1", level="debug", message="quiet") for _ in range(MOST_READ + 600)]
    db = filled([ev.Noted(at=NOW, issue_id="1", level="info", message="first"), *quiet])
    page = story(db)
    assert page.entries == []
    assert page.more_before is not None
    assert [entry.text for entry in story(db, before=page.more_before).entries] == ["first"]


def test_an_entry_that_cannot_be_read_is_told_as_that(filled, tmp_path):
    db = filled(notes(2))
    with closing(connect_writer(tmp_path / "sortie.db")) as writer:
        bad = "INSERT INTO events (at, kind, issue_id, data) VALUES (1e300, 'later', '1', '{}')"
        writer.execute(bad)
    last = story(db).entries[-1]
    assert last.time == "?"
    assert "cannot be read: number 3, of kind later" in last.text


def test_programs_get_the_event_itself_without_secrets(filled):
    entry = story(filled(notes(2))).entries[0]
    assert entry.event["kind"] == entry.kind == "note"
    assert entry.event["detail"] == "[redacted]"
    assert SECRET.encode() not in msgspec.json.encode(entry)


def test_an_issue_nobody_knows_has_an_empty_story(filled):
    page = story(filled([]), "nobody")
    assert (page.situation.state, page.entries, page.more_before, page.identifier) == (
        "released",
        [],
        None,
        "nobody",
    )


def test_a_page_costs_the_same_of_a_story_ten_times_as_long(filled, tmp_path):
    def cost() -> int:
        return steps(tmp_path / "sortie.db", lambda db: story(db, limit=5))

    filled(notes(200))
    few = cost()
    filled(notes(1800))
    assert cost() < few * 1.2


def test_what_the_tracker_shows_of_it_is_told(filled):
    view = ev.View(id="1", identifier="A-1", title=f"Mend {SECRET}", state="To Do")
    page = story(filled([ev.IssueSeen(at=NOW, issue_id="1", view=view)]))
    assert (page.identifier, page.title, page.tracker_state) == ("A-1", "Mend [redacted]", "To Do")
    assert page.situation.state == "ready"


SEEN = ev.IssueSeen(at=NOW, issue_id="1", view=ev.View(id="1", identifier="draft", title="", state="pending"))
CLAIMED = ev.Claimed(at=NOW, issue_id="1", run_id="r", identifier="draft", attempt=1)


def waits(kind: Any) -> list[ev.AnyEvent]:
    retry = ev.Retry(kind=kind, attempt=2, due_at=NOW + 60, error="no program")
    return [CLAIMED, ev.Settled(at=NOW, issue_id="1", run_id="r", identifier="draft", retry=retry, why="failed")]


@pytest.mark.parametrize(
    ("happened", "commands"),
    [
        ([], {"plan run"}),
        ([CLAIMED], {"plan run"}),
        (waits("error"), {"plan run"}),
        (waits("held"), {"plan run", "plan retry draft"}),
        (
            [
                ev.Parked(
                    at=NOW,
                    issue_id="1",
                    identifier="draft",
                    park=ev.Park(kind="signal", reason="Which?", fingerprint=""),
                )
            ],
            {"plan retry draft"},
        ),
    ],
)
def test_of_a_task_the_commands_of_plans_are_named(filled, happened, commands):
    opened = ev.Opened(at=NOW, pid=1, version="9.9", workflow="/somewhere/plan.yaml")
    told = timeline(filled([opened, SEEN, *happened]), "1", now=NOW, served=False, hide=hidden, policy=Policy())
    assert set(re.findall("`sortie (.*?)`", told.situation.sentence)) == commands
    assert "tracker" not in told.situation.sentence


def test_what_the_tracker_shows_no_more_keeps_its_title(filled):
    view = ev.View(id="1", identifier="A-1", title=f"Mend {SECRET}", state="To Do")
    left = ev.IssueLeft(at=NOW + 1, issue_id="1", identifier="A-1")
    page = story(filled([ev.IssueSeen(at=NOW, issue_id="1", view=view), left]))
    assert (page.title, page.tracker_state) == ("Mend [redacted]", "")
