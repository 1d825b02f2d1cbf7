"""Who takes part is found in whatever document says so, and a broken one is named instead of believed."""

from __future__ import annotations

import os

import pytest

from sortie.peers.place import place_at
from sortie.peers.roster import Roster, collisions, problem_with_name, roster_of

CHARTER = "## Roster\n| Role | Agent |\n|--|--|\n| Maintainer | Rob |\n| Writes | alice |\n| Reviews | Bob |\n"
SETTINGS = "maintainer: Ann\nagents:\n  carol: {kind: mock}\n  dave: {kind: mock}\n"
MAILBOX = "## Inbox Snapshot\n| Agent | Unread |\n|--|--|\n| erin | 0 |\n| Maintainer | 2 |\n"


@pytest.fixture
def place(tmp_path):
    return place_at(tmp_path)


def test_the_charter_comes_first_then_the_settings_then_the_mailbox(place):
    """LOG-05"""
    place.mailbox.write_text(MAILBOX)
    assert roster_of(place) == Roster(agents=("erin",))
    place.settings.write_text(SETTINGS)
    assert roster_of(place) == Roster(agents=("carol", "dave"), maintainer="Ann")
    place.charter.write_text(CHARTER)
    assert roster_of(place) == Roster(agents=("alice", "Bob"), maintainer="Rob")


def test_a_name_is_found_however_it_is_written():
    """LOG-05: and given back as the roster has it."""
    roster = Roster(agents=("alice", "Bob"), maintainer="Rob")
    found = {name: roster.find(name) for name in ("ALICE", " bob ", "rob", "maintainer", "eve", "")}
    assert found == {"ALICE": "alice", " bob ": "Bob", "rob": "Rob", "maintainer": "Rob", "eve": None, "": None}
    assert roster.is_maintainer("ROB") and not roster.is_maintainer("bob")


@pytest.mark.parametrize("broken", [b"", b"\xff\0", b"agents: [", b"agents: 3", b"- a", b"&a [*a]"])
def test_a_broken_document_is_named_and_the_next_one_is_asked(place, broken):
    """LOG-05"""
    place.charter.write_bytes(broken)
    place.settings.write_bytes(broken)
    place.mailbox.write_text(MAILBOX)
    roster = roster_of(place)
    assert roster.agents == ("erin",)
    assert "CHARTER.md" in roster.problem and "peers.yaml" in roster.problem


@pytest.mark.parametrize("what", ["link", "fifo", "directory", "unreadable"])
def test_what_is_no_file_is_not_read(place, what):
    match what:
        case "link":
            (place.root / "elsewhere").write_text(CHARTER)
            place.charter.symlink_to("elsewhere")
        case "fifo":
            os.mkfifo(place.charter)
        case "directory":
            place.charter.mkdir()
        case "unreadable":
            place.charter.write_text(CHARTER)
            place.charter.chmod(0)
            if os.access(place.charter, os.R_OK):
                pytest.skip("root reads everything")
    roster = roster_of(place)
    assert roster.agents == ()
    assert "CHARTER.md" in roster.problem


def test_where_nothing_is_that_is_said(place):
    assert roster_of(place) == Roster(problem="no document says who takes part")


@pytest.mark.parametrize(
    "name",
    ["", " ", "all", "Maintainer", "SHARED", "a|b", "a\nb", "x" * 65, "a: b", "a/b", "{A}", "a + b", "a and b"],
)
def test_what_nobody_is_called(name):
    assert problem_with_name(name)


def test_names_that_differ_in_case_alone():
    """LOG-08"""
    assert collisions(["Bob", "alice", "bob", "ALICE", "eve", "eve"]) == [
        ("Bob", "bob"),
        ("alice", "ALICE"),
        ("eve", "eve"),
    ]
