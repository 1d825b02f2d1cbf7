"""Edits of the head: one status line, one row; for any log, and without a change to anything else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from sortie.errors import SortieError
from sortie.peers.worklog.head import row_text
from sortie.peers.worklog.head_edit import with_entry, with_row, with_status
from sortie.peers.worklog.parse import Worklog, parse

from .logs import logs

ROW = row_text("Use a|b", "Maintainer", "2026-11-18T02:00:00Z", "Decision: Use a|b")


def entries(log: Worklog) -> list[tuple[str, str]]:
    return [(one.entry_id, one.digest) for one in log.entries]


@settings(max_examples=300)
@given(logs)
def test_a_status_is_set_in_any_log_and_nothing_else_changes(data):
    """LOG-01: in place where there is a line, else in the document's place."""
    old = parse(data)
    changed = with_status(data, "Zoe", "T-3 — parser")
    new = parse(changed)
    assert new.now_working()["Zoe"].text == "T-3 — parser"
    assert new.now_working()["Zoe"].pinned
    assert entries(new) == entries(old)
    assert new.index == () or [one.row_id for one in new.index] == [one.row_id for one in old.index]
    others = {agent: line.text for agent, line in new.now_working().items() if agent != "Zoe"}
    assert others == {agent: line.text for agent, line in old.now_working().items()}
    again = with_status(changed, "zoe", "idle")
    assert parse(again).now_working()["Zoe"].text == "idle"
    assert len(parse(again).status) == len(new.status)


@settings(max_examples=300)
@given(logs)
def test_a_row_is_added_to_any_log_and_nothing_else_changes(data):
    """LOG-01: at the end of the index; where there is none, it is made in the document's place."""
    old = parse(data)
    try:
        changed = with_row(data, ROW)
    except SortieError as error:
        assert "not closed" in str(error)
        return
    new = parse(changed)
    added = {row.row_id: row for row in new.index if row not in old.index}
    assert {row.row_id for row in old.index} < {row.row_id for row in new.index}
    assert len(new.index) == len(old.index) + 1
    assert ("Use a|b", "Decision: Use a|b") in [(row.decision, row.section) for row in added.values()]
    assert entries(new) == entries(old)
    assert {agent: line.text for agent, line in new.now_working().items()} == {
        agent: line.text for agent, line in old.now_working().items()
    }


def test_the_form_of_a_line_stays():
    for line in (
        "- **Now Working (Bob):** x",
        "**Now Working (Bob): x**",
        "Now Working (Bob):",
        "  Now Working (bob): x",
    ):
        changed = with_status(f"# W\r\n\r\n{line}\r\nMaintainer Focus: y\r\n".encode(), "Bob", "T-1").decode()
        prefix = line.split("):")[0]
        assert prefix in changed
        assert parse(changed.encode()).now_working().popitem()[1].text == "T-1"
        assert changed.count("\r\n") == changed.count("\n") == 4


def test_a_new_agent_comes_behind_the_others():
    changed = with_status(b"# W\n\nNow Working (A): x\nMaintainer Focus: y\n\n## Session 1\n", "B", "z")
    assert changed == b"# W\n\nNow Working (A): x\nNow Working (B): z\nMaintainer Focus: y\n\n## Session 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "\nNow Working (B): z\n\n"),
        ("# W\n\nText.\n", "# W\n\nNow Working (B): z\n\n\nText.\n"),
        ("---\na: b\n---\n# W\n", "---\na: b\n---\n# W\n\nNow Working (B): z\n\n"),
        ("# Session 1\n\n### A: x\n", "\nNow Working (B): z\n\n# Session 1\n\n### A: x\n"),
        ("### A: x\n", "\nNow Working (B): z\n\n### A: x\n"),
        ("Maintainer Focus: x\n", "Now Working (B): z\nMaintainer Focus: x\n"),
    ],
)
def test_a_block_where_there_was_none_stands_on_top(before, after):
    """LOG-01: behind the title and what belongs to the file as such."""
    assert with_status(before.encode(), "B", "z").decode() == after


def test_an_index_where_there_was_none_stands_before_the_body():
    """LOG-01: behind the status block."""
    changed = with_row(b"# W\n\nNow Working (A): x\n\n## Session 1\n\n### A: x\n", "| a | b | c | d |").decode()
    assert changed.index("Now Working") < changed.index("## Decision Index") < changed.index("## Session 1")
    assert [part.kind for part in parse(changed.encode()).parts] == [
        "preamble",
        "status",
        "index",
        "session",
        "entry",
    ]


def test_an_index_at_the_end_of_a_file_is_used():
    index = b"## Decision Index\n\n| Decision | Owner | Timestamp | Section |\n|---|---|---|---|\n| 1 | 2 | 3 | 4 |"
    data = b"### A: x\n\n" + index
    assert with_row(data, "| a | b | c | d |") == data + b"\n| a | b | c | d |\n"


def test_a_head_that_is_open_takes_no_index_and_says_why():
    with pytest.raises(SortieError, match="not closed"):
        with_row(b"# W\n\n```\ntext\n", "| a | b | c | d |")


def test_an_entry_stands_apart_from_what_is_before_it():
    for before in (b"x", b"x\n", b"x\n\n", b"x\r\n", b"x\r\n\r\n", b""):
        text = with_entry(before, "### 2026-11-18T02:00:00Z \u2014 A: x\n").decode().replace("\r\n", "\n")
        assert text in ("x\n\n### 2026-11-18T02:00:00Z \u2014 A: x\n", "### 2026-11-18T02:00:00Z \u2014 A: x\n")
