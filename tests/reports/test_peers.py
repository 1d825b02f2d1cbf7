"""Agents of one checkout: what they wrote, their mail as columns, whose turn it is; broken documents are told."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

from sortie.peers.author import Author
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister
from sortie.peers.worklog.compose import Completion
from sortie.peers.worklog.worklog_file import WorklogFile
from sortie.reports.peers import find_peers, peers_report

from .scene import NOW, SECRET, hidden

CHARTER = """\
# Charter

- Session ID: s1

## Roster

| Role | Agent |
|---|---|
| Maintainer | Rob |
| Agent | Alice |
| Agent | Bob |
"""
ROB = Author(name="Rob", role="maintainer")
ALICE = Author(name="Alice", role="agent")


@pytest.fixture
def place(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "CHARTER.md").write_text(CHARTER)
    return place_at(tmp_path)


@pytest.fixture
def busy(place):
    """Three entries, three messages, one of them answered, and two turns."""
    log, box, register = WorklogFile(place.worklog), MailboxFile(place), TurnRegister(place)
    log.create(("Alice", "Bob"), "Rob", ROB, NOW)
    for number in range(3):
        log.record(Completion(task=f"Part {number}", note=f"It uses {SECRET}"), ALICE, at=NOW + number)
    box.create(ROB, NOW)
    for number in range(3):
        draft = Draft(to=("Bob",), subject=f"Question {number} {SECRET}", body="Which?", priority="P0")
        box.send(draft, ALICE, at=NOW + number)
    first = box.read().messages[-1]
    box.move(first.id, "acknowledged", Author(name="Bob", role="agent"), at=NOW + 9, said="I look")
    turn = register.begin(agent="Alice", kind="work", began=NOW, task="the parser")
    register.end(turn.number, "completed", NOW + 60)
    register.begin(agent="Bob", kind="mailbox", began=NOW + 70)
    return place


def test_entries_are_told_the_newest_first_and_paged(busy):
    first = peers_report(busy, hide=hidden, size=2)
    assert [entry.title for entry in first.entries] == ["Completed: Part 2", "Completed: Part 1"]
    assert (first.more, first.total_entries, first.entries[0].actor) == (True, 3, "Alice")
    second = peers_report(busy, hide=hidden, skip=2, size=2)
    assert [entry.title for entry in second.entries] == ["Completed: Part 0"]
    assert not second.more


def test_mail_stands_in_columns_by_how_far_it_is(busy):
    report = peers_report(busy, hide=hidden)
    columns = {column.status: column for column in report.columns}
    assert {status: column.total for status, column in columns.items() if column.total} == {
        "new": 2,
        "acknowledged": 1,
    }
    assert [card.subject for card in columns["new"].cards] == ["Question 2 [redacted]", "Question 1 [redacted]"]
    assert report.unread == {"Alice": 0, "Bob": 2, "Rob": 0}
    assert any("I look" in answer for answer in columns["acknowledged"].cards[0].answers)


def test_whose_turn_it_is_and_which_one_goes_on(busy):
    report = peers_report(busy, hide=hidden)
    assert (report.agents, report.maintainer) == (("Alice", "Bob"), "Rob")
    assert report.proposed[0].agent == "Bob"
    assert report.proposed[0].reason == "urgent mail"
    assert [(turn.agent, turn.outcome) for turn in report.turns] == [("Bob", "goes on"), ("Alice", "completed")]
    assert report.open_turn == report.turns[0]


def test_nothing_secret_is_in_it(busy):
    assert SECRET.encode() not in msgspec.json.encode(peers_report(busy, hide=hidden))


def test_a_place_with_nothing_but_a_charter_is_empty_and_no_trouble(place):
    report = peers_report(place, hide=hidden)
    assert (report.entries, report.total_entries, report.problems) == ([], 0, [])
    assert [one.reason for one in report.proposed] == ["longest wait", "longest wait"]


def test_documents_that_cannot_be_read_are_told_and_hide_no_others(busy):
    busy.mailbox.unlink()
    busy.mailbox.mkdir()
    report = peers_report(busy, hide=hidden)
    assert report.total_entries == 3
    assert any("MAILBOX.md" in problem for problem in report.problems)


def test_where_no_agents_share_anything_there_are_no_peers(tmp_path):
    (tmp_path / "deep").mkdir()
    assert find_peers(tmp_path / "deep") is None
    (tmp_path / "peers.yaml").write_text("agents: {}\n")
    assert find_peers(tmp_path) is None, "settings alone say nothing of what agents share"
    (tmp_path / "CHARTER.md").write_text(CHARTER)
    found = find_peers(tmp_path / "deep")
    assert found is not None
    assert found.root == tmp_path
