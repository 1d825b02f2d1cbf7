"""`sortie worklog lint` and `verify`: what is wrong with a log, what was done to it, and what can be put back."""

from __future__ import annotations

import os
import shutil

from sortie.peers.place import place_at


def test_lint_says_what_is_wrong_with_line_rule_and_fix(log):
    """LOG-04: exit 0 where nothing is wrong, else 3."""
    assert log.done("lint").out == "WORKLOG.md: nothing is wrong\n"
    with log.path.open("a") as file:
        file.write("\n### 2026-01-01T10:00:00Z — Zoe: as you know\n")
    said = log.say("lint")
    assert said.code == 3
    assert said.lines[0].startswith("WORKLOG.md:15: unknown-actor: The entry")
    assert {one["kind"] for one in log.say("lint", "--json").json()} == {"unknown-actor", "assumes-read"}


def test_a_decision_that_is_only_in_the_mailbox_is_reported(log):
    """LOG-13: with the message and its line in the mailbox."""
    (log.root / "MAILBOX.md").write_text(
        "# MAILBOX\n\n## Active Messages (Newest First)\n\n### MSG-20261118-001\n\n| Field | Value |\n|---|---|\n"
        "| Date | 2026-11-18 |\n| From | Alice |\n| To | Mira |\n| Type | decision-required |\n| Priority | P1 |\n"
        "| Status | actioned |\n| Subject | Format of settings |\n\nAck:\n- Mira — 2026-11-18 — approved: TOML\n"
    )
    (one,) = log.say("lint", "--json").json()
    assert (one["kind"], one["file"], one["subject"]) == ("decision only in mail", "MAILBOX.md", "MSG-20261118-001")
    assert log.say("lint").code == 3
    log.done("decide", "Format of settings", "TOML, see MSG-20261118-001")
    assert log.done("lint").code == 0


def test_verify_compares_two_files(log, tmp_path):
    """LOG-04, LOG-05: exit 0 for appends, 3 for anything else; --by judges rights."""
    old, new = tmp_path / "old.md", tmp_path / "new.md"
    log.done("append", "one", "first words", "--as", "Alice")
    old.write_text(log.text)
    new.write_text(log.text + "\n### 2026-11-18T10:00:00Z — Bob: two\n")
    clean = log.done("verify", str(old), str(new))
    assert clean.out == f"{new}: only appended to\n"
    assert log.say("verify", str(old), str(new), "--by", "bob").code == 0
    forged = log.say("verify", str(old), str(new), "--by", "Alice", "--json")
    assert (forged.code, [one["kind"] for one in forged.json()]) == (3, ["impersonated"])
    new.write_text(log.text.replace("first words", "other words"))
    edited = log.say("verify", str(old), str(new))
    assert edited.code == 3
    entry = log.log.entries[0]
    assert f'{new}:15: edited: The entry "one" of Alice was edited' in edited.out
    assert entry.entry_id in edited.out
    new.write_bytes(old.read_bytes().replace(b"\n", b"\r\n"))
    assert "line ends" in log.done("verify", str(old), str(new)).out
    for wrong in (["one"], ["a", "b", "--git"], ["--git", "HEAD", "--restore"], ["--by", "Bob"]):
        assert log.say("verify", *wrong).code == 2
    assert "cannot be read" in log.say("verify", str(old), "missing.md").err
    os.mkfifo(tmp_path / "fifo")
    assert "no regular file" in log.say("verify", str(old), str(tmp_path / "fifo")).err


def test_verify_compares_with_the_record_and_restores(log):
    """LOG-04: what was acknowledged and is gone is named, and comes back in the words of its author."""
    before = log.text
    (lost,) = log.done("append", "one", "first words", "--as", "Alice").lines
    log.done("append", "two", "--as", "Bob")
    assert log.done("verify").out == "WORKLOG.md: as it was recorded\n"
    log.path.write_text(before)
    said = log.say("append", "three", "--as", "Bob")
    assert said.code == 0
    assert "2 entries recorded earlier went from WORKLOG.md" in said.err
    assert "worklog verify --restore" in said.err
    assert lost in said.err
    assert log.done("append", "four", "--as", "Bob").err == ""  # told once
    gone = log.say("verify")
    assert gone.code == 3
    assert "which Alice recorded at" in gone.out
    assert gone.out.count(": lost: ") == 2
    assert "puts back" in gone.err
    restored = log.done("verify", "--restore")
    assert f"put back {lost}, of Alice" in restored.out
    assert log.text.count("first words") == 1
    assert log.done("verify").out == "WORKLOG.md: as it was recorded\n"
    assert log.done("verify", "--restore").out == "nothing is lost\n"


def test_what_is_restored_stands_as_it_was_written(log):
    """LOG-04: in the order in which it was written, apart from each other, at the end of whole lines."""
    before = log.text
    for text in ("first", "second", "third"):
        log.done("append", text, text, "--as", "Alice")
    log.done("decide", "Tabs", "--mode", "consensus", "--as", "Bob")
    log.path.write_text(log.text.replace("\nsecond\n", "\nsecond, changed\n"))
    log.done("verify", "--restore")  # so that the second is on record after the third
    log.path.write_text(before)
    log.done("verify", "--restore")
    assert [entry.title for entry in log.log.entries] == ["first", "second", "third", "Decision: Tabs"]
    for entry in log.log.entries[1:]:
        assert log.log.data[: entry.start].endswith(b"\n\n")
    assert log.text.endswith("\n")
    assert "\n\n\n" not in log.text.removeprefix(before)


def test_a_changed_entry_that_stays_beside_what_is_restored_is_named(log):
    """LOG-04: nobody throws away what was written by hand, and nobody calls it as it was recorded."""
    (name,) = log.done("append", "one", "first words", "--as", "Alice").lines
    log.path.write_text(log.text.replace("first words", "other words"))
    restored = log.done("verify", "--restore")
    assert restored.lines[0].startswith(f"put back {name}, of Alice")
    assert restored.lines[1] == f"  what it was changed to stays: {name}, line 15"
    after = log.say("verify")
    assert after.code == 3
    assert "WORKLOG.md:15: edited: " in after.out
    assert "as it was recorded stands at line 19" in after.out
    assert log.done("verify", "--restore").out == "nothing is lost\n"


def test_a_removed_work_log_comes_back_from_the_record(log):
    """LOG-04: `verify` says what brings it back, and --restore does it."""
    ids = [log.done("append", title, "--as", "Alice").lines[0] for title in ("one", "two")]
    log.path.unlink()
    said = log.say("verify")
    assert said.code == 1
    assert "There is no WORKLOG.md" in said.err
    assert "2 entries are on record" in said.err
    assert "worklog verify --restore" in said.err
    restored = log.done("verify", "--restore")
    assert [name in restored.out for name in ids] == [True, True]
    assert [entry.entry_id for entry in log.log.entries] == ids
    assert "Now Working (Bob): idle" in log.text
    assert log.done("verify").out == "WORKLOG.md: as it was recorded\n"
    log.path.unlink()
    shutil.rmtree(place_at(log.root).state)
    for arguments in (["verify"], ["verify", "--restore"]):
        assert "worklog init" in log.say(*arguments).err
        assert not log.path.exists()


def test_a_clone_has_nothing_on_record_and_says_so(log):
    """LOG-04: and names what can be looked at there."""
    log.done("append", "one", "--as", "Alice")
    log.done("decide", "Tabs")
    shutil.rmtree(place_at(log.root).state)
    said = log.done("verify")
    assert said.out.startswith("WORKLOG.md: no record: Nothing is on record of its 2 entries here")
    assert "sortie worklog verify --git" in said.out
    assert "as it was recorded" not in said.out
    assert len(said.lines) == 1
    assert log.done("verify", "--json").json()[0]["kind"] == "no record"
