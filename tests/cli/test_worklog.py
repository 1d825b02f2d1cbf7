"""`sortie worklog`: what is written, by whom, and how it is read again."""

from __future__ import annotations

import os
from typing import get_args

import pytest

from sortie.cli.main import main
from sortie.cli.worklog_look import TYPES
from sortie.peers.author import Author
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister
from sortie.peers.worklog.event import EventType
from sortie.peers.worklog.worklog_file import WorklogFile

from .worklog_scene import Checkout

KEYS = ["event_id", "event_type", "session_id", "actor", "timestamp", "subject", "payload", "links"]


# Each command, and the events that it records.
COMMANDS = [
    (["claim", "parser", "--note", "first the tables"], ["task.claimed"]),
    (["complete", "parser", "--file", "a.py", "--file", "b.py", "--tests", "3 pass", "--risks", "slow"],
     ["task.completed"]),
    (["handoff", "parser", "--to", "bob", "--blocking", "review"], ["task.completed", "handoff.posted"]),
    (["handoff", "wired", "--to", "Bob", "--quick", "--next", "integration", "--tests", "47 pass"],
     ["handoff.posted"]),
    (["propose", "Use TOML", "for all settings", "--scope", "settings", "--rollback", "keep both",
      "--deadline", "Friday"], ["proposal.created"]),
    (["amend", "PROP-001", "for most", "--risks", "two formats"], ["proposal.amended"]),
    (["object", "PROP-001", "--counter", "YAML", "--reason", "known", "--reason", "short"], ["objection.raised"]),
    (["decide", "Tabs", "--mode", "consensus", "--with", "Alice", "--with", "Bob", "--rationale", "width"],
     ["decision.recorded"]),
    (["escalate", "formats", "no agreement", "--message", "MSG-20261118-001"], ["escalation.requested"]),
    (["append", "findings", "The lexer is slow."], ["note"]),
]  # fmt: skip


def record_all(checkout: Checkout) -> list[str]:
    """The ids of the events."""
    printed = []
    for arguments, _ in COMMANDS:
        printed += checkout.done(*arguments, "--as", "alice").lines
    return [line for line in printed if line.startswith("wl-")]


def test_every_type_of_event_is_written_and_read_back(log):
    """LOG-02, LOG-03: each command prints the ids that `events` gives, in envelopes of eight keys."""
    printed = record_all(log)
    events = log.done("events", "--json").json()
    assert [event["event_id"] for event in events] == printed
    assert [event["event_type"] for event in events] == [name for _, names in COMMANDS for name in names]
    assert {event["event_type"] for event in events} == set(get_args(EventType)) == set(TYPES)
    for event in events:
        assert list(event) == KEYS
        assert (event["actor"], event["session_id"]) == ("Alice", "S-7")
        assert event["payload"]["written_by"] == "Alice"
    by_type = {event["event_type"]: event["payload"] for event in events}
    assert by_type["task.claimed"]["note"] == "first the tables"
    assert events[1]["payload"]["changed_files"] == ["a.py", "b.py"]
    assert by_type["objection.raised"]["recommended_by"] == "Alice"
    assert by_type["objection.raised"]["recommended"] == "for all settings"
    assert by_type["objection.raised"]["reasoning"] == ["known", "short"]
    assert by_type["proposal.amended"]["scope"] == "settings"
    assert by_type["escalation.requested"]["message_id"] == "MSG-20261118-001"


def test_ids_stay_whatever_is_added_later(log):
    """LOG-03: the same event, the same id."""
    record_all(log)
    before = log.done("events", "--json").json()
    log.done("status", "--set", "something else", "--as", "Bob")
    record_all_again = [
        log.done("append", "findings", "The lexer is slow.", "--as", "Alice").lines for _ in range(2)
    ]
    after = log.done("events", "--json").json()
    assert after[: len(before)] == before
    assert [[event["event_id"]] for event in after[len(before) :]] == record_all_again


def test_events_are_chosen_by_type_and_actor(log):
    record_all(log)
    log.done("append", "of Bob", "--as", "Bob")
    assert len(log.done("events", "--json", "--type", "handoff.posted").json()) == 2
    assert [event["subject"] for event in log.done("events", "--json", "--actor", "BOB").json()] == ["of Bob"]
    shown = log.done("events", "--actor", "Bob").lines
    assert shown[0].split() == ["id", "time", "actor", "event", "subject"]
    assert shown[1].endswith("of Bob")
    assert log.say("events", "--type", "nonsense").code == 2
    assert log.done("events", "--type", "note", "--actor", "Mira").out == "nothing\n"


def test_claim_and_complete_set_the_own_status_line_alone(log):
    """LOG-05: and nothing else of the block."""
    before = log.text
    log.done("claim", "parser", "--as", "Alice")
    assert log.text.startswith(before.replace("Alice): idle", "Alice): parser"))
    log.done("complete", "parser", "--as", "Alice")
    assert log.text.startswith(before)
    log.done("status", "--set", "reading", "--as", "Bob")
    assert log.text.startswith(before.replace("Bob): idle", "Bob): reading"))


def test_a_person_writes_as_the_maintainer_or_for_an_agent(log):
    """LOG-05: the name as the charter spells it, and nobody else."""
    assert log.done("append", "x", "--json").json()["written_by"] == "Mira"
    assert log.done("append", "x", "--json", "--as", "BOB").json()["written_by"] == "Bob"
    refused = log.say("append", "x", "--as", "Alcie")
    assert refused.code == 1
    assert 'did you mean "Alice"?' in refused.err
    assert "Nobody here is called" in log.say("handoff", "x", "--to", "Zoe", "--as", "Bob").err


def test_a_maintainer_decision_is_the_maintainers_own(log):
    """LOG-05, LOG-13: in the entry and in the index; an agent records what was agreed on."""
    log.done("decide", "Use TOML", "for all")
    (row,) = log.log.index
    assert (row.decision, row.owner, row.section) == ("Use TOML", "Mira", "Decision: Use TOML")
    assert "**Decision mode:** maintainer adjudication" in log.text
    before = log.text
    alone = log.say("decide", "Tabs", "--as", "Alice")
    assert (alone.code, log.text) == (1, before)
    assert "--mode consensus" in alone.err
    forged = log.say("decide", "Tabs", "--mode", "maintainer adjudication", "--as", "Alice")
    assert (forged.code, log.text) == (1, before)
    assert "cannot record a decision of the maintainer" in forged.err
    log.done("decide", "Tabs", "--mode", "counter-rec resolved", "--as", "Alice")
    assert [row.owner for row in log.log.index] == ["Mira", "Alice"]


def test_the_lines_of_the_maintainer_are_set_by_the_maintainer(log):
    """LOG-05: --focus and --checkpoint."""
    log.done("status", "--focus", "release", "--checkpoint", "Friday")
    assert "\nMaintainer Focus: release\nNext Review Checkpoint: Friday\n" in log.text
    before = log.text
    for arguments in (["--focus", "mine"], ["--checkpoint", "never"]):
        refused = log.say("status", *arguments, "--as", "Alice")
        assert (refused.code, log.text) == (1, before)
        assert "the maintainer's" in refused.err
    assert "say which: --as NAME" in log.say("status", "--set", "x").err


def test_who_proposed_amends(log):
    """LOG-02: the proposing agent alone; others object."""
    log.done("propose", "Use TOML", "x", "--as", "Alice")
    refused = log.say("amend", "PROP-001", "y", "--as", "Bob")
    assert refused.code == 1
    assert "sortie worklog object PROP-001" in refused.err
    unknown = log.say("amend", "PROP-010", "y", "--as", "Alice")
    assert 'did you mean "PROP-001"?' in unknown.err
    taken = log.say("propose", "Other", "x", "--id", "PROP-001", "--as", "Bob")
    assert "is a proposal of Alice" in taken.err
    assert log.say("object", "anything", "--counter", "z", "--as", "Bob").code == 2
    log.done(
        "object", "anything", "--counter", "z", "--recommended-by", "Alice", "--recommended", "w", "--as", "Bob"
    )


def test_a_proposal_is_told_by_which_id_others_know_it(log):
    """LOG-02: that of the entry, and the one that `amend`, `object` and `decide` take."""
    name, proposal_id = log.done("propose", "Use TOML", "x", "--as", "Alice").lines
    assert (name[:3], proposal_id) == ("wl-", "PROP-001")
    assert log.done("propose", "Tabs", "x", "--id", "TABS-1", "--as", "Alice").lines[1] == "TABS-1"
    told = log.done("propose", "Spaces", "x", "--as", "Bob", "--json").json()
    assert told["proposal_id"] == "PROP-002"
    assert "proposal_id" not in log.done("append", "x", "--json").json()
    log.done("amend", proposal_id, "y", "--as", "Alice")


def test_status_shows_who_works_and_what_is_open(log):
    record_all(log)
    shown = log.done("status").out
    for words in ("Alice", "Open handoffs", "integration", "Open proposals", "PROP-001", "Open objections"):
        assert words in shown
    found = log.done("status", "--json").json()
    assert found["now_working"] == {"Alice": "idle", "Bob": "idle"}
    assert [row["decision"] for row in found["decisions"]] == ["Tabs"]
    assert [len(found["open"][key]) for key in ("handoffs", "proposals", "objections")] == [2, 1, 1]
    log.done("decide", "PROP-001", "yes")
    assert log.done("status", "--json").json()["open"]["proposals"] == []
    assert log.say("status", "--as", "Alice").code == 2


def test_a_decision_names_what_it_ends(log):
    """LOG-02: --about takes proposals, entries and messages, and nothing that is none of them."""
    log.done("propose", "Use TOML", "x", "--as", "Alice")
    objection = ["object", "width", "--counter", "4", "--recommended-by", "Alice", "--recommended", "2"]
    (name,) = log.done(*objection, "--as", "Bob").lines
    mailbox = MailboxFile(place_at(log.root))
    author = Author(name="Alice", role="agent")
    mailbox.create(author, 1.0)
    message = mailbox.send(Draft(to=("Mira",), subject="formats"), author, at=2.0).message.id
    before = log.text
    for wrong, meant in (
        ("PROP-010", "PROP-001"),
        (f"{name[:-1]}x", name),
        (f"{message[:-1]}9", message),
        ("TOML", "."),
    ):
        refused = log.say("decide", "Formats", "--about", wrong)
        assert (refused.code, log.text) == (1, before)
        assert wrong in refused.err
        assert meant in refused.err
    log.done("decide", "Formats", "as they are", "--about", "PROP-001", "--about", name, "--about", message)
    assert f"- **About:** PROP-001, {name}, {message}\n" in log.text
    (decision,) = log.done("events", "--json", "--type", "decision.recorded").json()
    assert decision["payload"]["about"] == ["PROP-001", name, message]
    assert set(decision["links"]) == {"PROP-001", name, message}
    still_open = log.done("status", "--json").json()["open"]
    assert (still_open["proposals"], still_open["objections"]) == ([], [])
    told = " ".join(log.done("decide", "--help").out.split())
    assert "ends the proposals and objections that it names" in told
    assert "whoever has it answers it" in told


def test_since_tells_what_happened_since_the_last_turn_however_often(log, monkeypatch):
    """LOG-07: by the register of turns, by a turn, by a cursor."""
    register, file = TurnRegister(place_at(log.root)), WorklogFile(log.path)
    log.done("append", "before", "--as", "Bob")
    assert "before" in log.done("since", "Alice").out
    _, cursor = file.since(None)
    turn = register.begin(agent="Alice", kind="work", began=1.0, cursor=cursor.encode())
    log.done("append", "in the turn", "--as", "Alice")
    assert "before" in log.done("since", "alice").out  # it goes on; the last one is yet to end
    register.end(turn.number, "succeeded", 2.0)
    log.done("append", "after", "--as", "Bob")
    for _ in range(2):
        told = log.done("since", "Alice", "--json").json()
        assert [event["subject"] for event in told["events"]] == ["in the turn", "after"]
    cut_short = register.begin(agent="Alice", kind="work", began=3.0, cursor=told["cursor"])
    register.end(cut_short.number, "interrupted", 4.0)
    assert log.done("since", "Alice", "--json").json()["events"] == told["events"]
    assert log.done("since", "--turn", "1").lines[1:] == log.done("since", "Alice").lines[1:]
    assert log.done("since", "--cursor", told["cursor"]).out == "nothing\n"
    assert "no turn 9" in log.say("since", "--turn", "9").err
    assert log.say("since", "--cursor", "nonsense").code == 1
    assert log.say("since", "Alice", "--turn", "1").code == 2
    assert len(log.done("since", "Bob", "--json").json()["events"]) == 3
    monkeypatch.setenv("CLAUDECODE", "1")
    assert "worklog since NAME" in log.say("since").err


def test_show_gives_entries_in_full(log):
    ids = record_all(log)
    (shown,) = log.done("show", ids[1], "--json").json()
    assert shown["entry_id"] == ids[1]
    assert shown["written_by"] == "Alice"
    assert shown["text"].startswith("### 20")
    assert log.done("show", f"{ids[2]}").out == log.done("show", ids[2].partition(".")[0]).out
    assert log.done("show", ids[0][:10]).lines[0].startswith(ids[0])
    assert "line" in log.done("show").lines[0]
    assert len(log.done("show", "--last", "2", "--json").json()) == 2
    assert f"{len(log.log.entries)} entries begin" in log.say("show", "wl-").err
    assert "no entry" in log.say("show", "wl-0000000000").err
    (row,) = log.log.index
    assert "decision index" in log.say("show", row.row_id).err


def test_nobody_is_said_to_have_written_what_was_changed_since(log):
    """LOG-05: a forged word in the entry of another is not in their name."""
    (name,) = log.done("append", "one", "first words", "--as", "Alice").lines
    log.path.write_text(log.text.replace("first words", "other words"))
    (event,) = log.done("events", "--json").json()
    assert event["event_id"] == name
    assert "written_by" not in event["payload"]
    assert log.done("show", name, "--json").json()[0]["written_by"] is None
    assert "not on record" in log.done("show", name).lines[0]


# -- what people do wrong -----------------------------------------------------------------------------------------


def test_without_a_work_log_the_way_to_one_is_named(checkout, tmp_path, monkeypatch, capsys):
    assert "sortie worklog init --root" in checkout.say("status").err
    (checkout.root / "CHARTER.md").unlink()
    monkeypatch.chdir(tmp_path)
    assert main(["worklog", "status"]) == 1
    said = capsys.readouterr().err
    assert "There is no WORKLOG.md here or in a directory above." in said
    assert "--root" in said
    assert main(["worklog", "status", "--root", "nowhere"]) == 1
    assert "There is no directory nowhere." in capsys.readouterr().err


def test_init_needs_names_and_loses_nothing(tmp_path, checkout):
    (checkout.root / "CHARTER.md").unlink()
    assert "--agent NAME" in checkout.say("init").err
    checkout.done("init", "--agent", "Carol")
    assert "Now Working (Carol): idle" in checkout.text
    before = checkout.text
    again = checkout.say("init", "--agent", "Dave")
    assert (again.code, checkout.text) == (1, before)
    assert "already" in again.err


def test_what_is_no_file_is_said_to_be_none(checkout, tmp_path):
    """A link, a directory, a FIFO: nobody waits for it, and nothing is written through it."""
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text("# not ours\n")
    for make in (
        lambda: checkout.path.symlink_to(elsewhere),
        checkout.path.mkdir,
        lambda: os.mkfifo(checkout.path),
        lambda: checkout.path.symlink_to("nowhere"),
    ):
        make()
        for command in (["append", "x"], ["status"], ["events"], ["lint"], ["verify"]):
            said = checkout.say(*command)
            assert said.code == 1, command
            assert "WORKLOG.md" in said.err
            assert "Traceback" not in said.err
        checkout.path.rename(tmp_path / f"was-{len(list(tmp_path.iterdir()))}")
    assert elsewhere.read_text() == "# not ours\n"


def test_a_file_of_any_bytes_is_shown_and_added_to(checkout):
    checkout.path.write_bytes(bytes(range(256)) * 50)
    for command in (["status"], ["events"], ["show"], ["events", "--json"], ["show", "--json"], ["since", "Alice"]):
        assert all(line.isprintable() for line in checkout.done(*command).lines)
    assert checkout.say("lint").code == 3
    checkout.done("append", "after all that", "--as", "Alice")
    assert "after all that" in checkout.done("events").lines[-1]


def test_too_much_and_two_readers_of_one_pipe_are_refused(log):
    before = log.text
    assert "characters" in log.say("append", "x", "y" * 300_000).err
    assert "NUL" in log.say("append", "x", "a\0b").err
    assert log.say("append", "", "y").code == 1
    assert log.text == before


@pytest.mark.parametrize("columns", ["20", "40", "80"])
def test_nothing_is_wider_than_a_terminal_or_obeyed_by_it(log, monkeypatch, columns):
    log.done(
        "append", "日本語 \x1b[2J\u202e title that goes on and on and on", "\x1b]0;x\x07 text", "--as", "Alice"
    )
    with log.path.open("a") as file:
        file.write("\n### 2026-11-18T10:00:00Z — Bob: raw \x1b[2J \u202eword\n\n\x1b[31mred\x1b[0m \x9b1m\n")
    monkeypatch.setenv("COLUMNS", columns)
    for command in (["status"], ["events"], ["since", "Alice"]):
        for line in log.done(*command).lines:
            assert line.isprintable()
            assert len(line) <= max(int(columns), 21)  # an id is never cut
    for command in (["show"], ["lint"], ["events", "--json"], ["show", "--json"]):
        assert all(line.isprintable() for line in log.say(*command).lines)
