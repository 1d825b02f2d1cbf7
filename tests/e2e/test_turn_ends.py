"""What is left behind when a turn is over: what the log, the mailbox and the report say of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sortie.peers.mailbox.derive import rederived

from .peer_project import PeerProject

# The card of a message, as a person or an agent writes it into the mailbox.
BY_HAND = """
python3 - <<'END'
from pathlib import Path
box = Path("MAILBOX.md")
text = box.read_text()
card = '''### MSG-20261118-077

| Field | Value |
|---|---|
| Status | new |
| ID | MSG-20261118-077 |
| Date | 2026-11-18T03:00:00Z |
| From | Bob |
| To | Alice |
| Type | request |
| Priority | P2 |
| Subject | Which port? |

**Summary**

> The page needs one.

'''
section = "## Active Messages (Newest First)\\n\\n"
text = text.replace(section, section + card)
new = "| Status | new |\\n| ID | MSG-20261118-001 |"
text = text.replace(new, new.replace("new", "acknowledged"))
text = text.replace("> by hand\\n", "> by hand\\n\\n**Ack**\\n\\n- Bob — 2026-11-18T03:10:00Z — acknowledged\\n")
box.write_text(text)
END
"""


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[PeerProject]:
    made = PeerProject(tmp_path / "peers")
    yield made
    made.clean_up()


def test_a_handoff_does_not_name_what_was_put_back(peers):
    """LOG-10, LOG-14: nothing of it is in the checkout any more."""
    peers.settings(violations="revert")
    report = peers.turn("alice", "echo 'x = 2' > src/api.py; echo 2 > web/page.js", "-t", "Both", code=3)
    assert report["reverted"]["files"] == ["web/page.js"]
    assert peers.file("web/page.js") == "let version = 1\n"
    (handoff,) = peers.events("handoff")
    assert handoff.payload["changed_files"] == ["src/api.py"]


def test_mail_by_hand_leaves_the_tables_right(peers):
    """LOG-11: snapshot and queue follow from the messages, whoever wrote those, and nobody is told of it."""
    peers.sortie("mailbox", "send", "Bob", "-s", "Hello", "--body", "by hand", "--as", "Alice")
    (message,) = peers.mailbox.read().messages
    report = peers.turn("bob", BY_HAND.replace("MSG-20261118-001", message.id), "-t", "The mail")
    mailbox = peers.mailbox.read()
    assert {one.id: one.status for one in mailbox.messages} == {
        "MSG-20261118-077": "new",
        message.id: "acknowledged",
    }
    assert rederived(mailbox, peers.mailbox.roster.names) == mailbox.data
    assert "| Alice | 1 | MSG-20261118-077 |" in peers.file("MAILBOX.md")
    assert (report["findings"], report["problems"], report["needs_maintainer"]) == ([], [], False)


def test_settings_are_called_as_they_stand_in_the_file(peers):
    """LOG-14: a person finds the key that is named."""
    peers.settings({"Bob": {"command": "./nobody.sh"}, "Alice": {"turn_timeout_ms": 300}})
    report = peers.turn("bob", None, "-t", "Begin", code=3)
    assert "correct agents.Bob.command." in report["reason"]
    report = peers.turn("alice", "sleep 30", "-t", "Begin", code=3)
    assert "(agents.Alice.turn_timeout_ms)" in report["reason"]
    said = peers.file("WORKLOG.md")
    assert "correct agents.Bob.command.\n" in said and "(agents.Alice.turn_timeout_ms)." in said
    assert "agent.command" not in said
    peers.settings({"Bob": {"command": "exec /nowhere/nobody"}})
    refused = peers.sortie("turn", "bob", "-t", "Begin", code=1)
    assert "correct agents.Bob.command." in refused.stderr


def test_a_turn_whose_orchestrator_is_gone_is_told_as_such(peers):
    """LOG-07: its agent may live on, and the next turn ends what is left; nobody has to wait for anything."""
    gone = "its orchestrator is gone, and the next turn ends what is left of it"
    peers.script("alice", "say begun; sleep 60")
    running = peers.start("alice", "-t", "Long work")
    peers.wait_for_line("begun")
    assert "Turn 1 of Alice goes on" in peers.sortie("turn", "--next").stdout
    assert "goes on" in peers.sortie("turn", "--list").stdout
    assert "turn 1 of Alice since" in peers.sortie("peers", "status").stdout
    peers.kill(running)
    assert peers.living(), "the agent lives on"
    proposed = peers.sortie("turn", "--next").stdout
    assert f"Turn 1 of Alice was cut short: {gone}." in proposed and "sortie turn" in proposed
    told = json.loads(peers.sortie("turn", "--next", "--json").stdout)
    assert (told["open_turn"], told["cut_short"]["number"], bool(told["proposed"])) == (None, 1, True)
    listed = peers.sortie("turn", "--list").stdout
    assert "cut short" in listed and gone in listed and "goes on" not in listed
    assert f"Turn 1 of Alice was cut short: {gone}." in peers.sortie("peers", "status").stdout
    assert json.loads(peers.sortie("peers", "status", "--json").stdout)["cut_short"] is True
    peers.turn("bob", "true", "-t", "Next")
    assert [turn.outcome for turn in peers.turns()] == ["interrupted", "succeeded"]
    assert gone not in peers.sortie("turn", "--list").stdout


def test_why_tells_what_came_of_a_turn(peers):
    """LOG-10: the findings, and where what was taken back is kept; the same for programs."""
    peers.settings(violations="revert")
    report = peers.turn("alice", "echo 2 > web/page.js", "-t", "Both", code=3)
    said = peers.sortie("turn", "--why", "1").stdout
    assert said.startswith("Turn 1 of Alice, work: Both: succeeded after ")
    assert "active state" not in said and "run ended after 1 turn" in said
    (finding,) = report["findings"]
    assert finding["sentence"] in said and report["reverted"]["ref"] in said
    told = json.loads(peers.sortie("turn", "--why", "1", "--json").stdout)
    assert told["turn"]["number"] == 1 and told["events"]
    assert any(finding["sentence"] in one["text"] for one in told["recorded"])
    assert all(one["entry_id"].startswith("wl-") for one in told["recorded"])
