"""A work log against the record of who wrote what."""

from __future__ import annotations

import shutil

import pytest

from sortie.peers.author import Author
from sortie.peers.place import state_directory
from sortie.peers.shared_document import SharedDocument
from sortie.peers.worklog.compose import Decision, Note
from sortie.peers.worklog.verify_journal import verify_journal
from sortie.peers.worklog.worklog_file import WorklogFile

from .logs import AT

ALICE = Author(name="Alice", role="agent")
MIRA = Author(name="Mira", role="maintainer")
SORTIE = Author(name="Sortie", role="orchestrator")


class Log:
    def __init__(self, path):
        self.path = path
        self.file = WorklogFile(path)
        self.file.create(["Alice", "Bob"], "Mira", MIRA, AT)

    def note(self, title, author=ALICE, *, actor="", text="text"):
        (name,) = self.file.record(Note(title=title, text=text), author, at=AT, actor=actor).event_ids
        return name

    def replace(self, old, new):
        text = self.path.read_text()
        assert old in text
        self.path.write_text(text.replace(old, new))

    def found(self):
        return [(one.kind, one.subject, one.owner) for one in self._findings()]

    def sentences(self):
        return [one.sentence for one in self._findings()]

    def _findings(self):
        missing = SharedDocument(self.path).missing()
        return verify_journal(self.file.read(), self.file.written_by(), missing, maintainer="Mira")


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "WORKLOG.md")


def test_what_was_recorded_and_is_there_is_fine(log):
    """LOG-04: also with other line ends, and where the orchestrator wrote for an agent."""
    log.note("one")
    log.note("two", SORTIE, actor="Bob")
    decision = Decision(title="x", decision="y", mode="maintainer adjudication")
    log.file.record(decision, MIRA, at=AT)
    assert log.found() == []
    log.path.write_bytes(log.path.read_bytes().replace(b"\n", b"\r\n"))
    assert log.found() == []


def test_what_went_and_what_was_changed_since_is_named(log):
    """LOG-04: with the author on record."""
    lost, changed = log.note("one"), log.note("two")
    log.replace("Alice: two\n\ntext", "Alice: two\n\nother text")
    log.replace("### 2027-01-15T08:00:00Z — Alice: one\n\ntext\n\n", "")
    assert log.found() == [("lost", lost, "Alice"), ("edited", changed, "Alice")]
    SharedDocument(log.path).restore()
    assert log.found() == [("edited", changed, "Alice")]  # what it was changed to is still there
    assert log.path.read_text().count("Alice: two") == 2
    log.replace("### 2027-01-15T08:00:00Z — Alice: two\n\nother text\n", "")
    assert log.found() == []


def test_what_its_author_went_on_with_and_what_moved_up_is_not_changed(log):
    """LOG-04: more text at the end of an entry, and one of two with equal first lines that went."""
    log.note("one")
    lost = log.note("one", text="other words")
    last = log.note("one", text="last words")
    log.note("two", text="words")
    log.replace("two\n\nwords\n", "two\n\nwords\n\nand some more\n")
    assert log.found() == []
    log.replace("### 2027-01-15T08:00:00Z — Alice: one\n\nother words\n\n", "")
    assert log.found() == [("lost", lost, "Alice")]
    log.replace("last words", "forged words")
    assert [(kind, subject) for kind, subject, _ in log.found()] == [("lost", last), ("edited", lost)]


def test_where_nothing_is_on_record_that_is_what_is_said(log):
    """LOG-04: as in a clone; nothing is called proven or unproven there."""
    log.note("one")
    log.file.record(Decision(title="x", decision="y", mode="maintainer adjudication"), MIRA, at=AT)
    shutil.rmtree(state_directory(log.path.parent))
    assert [kind for kind, _, _ in log.found()] == ["no record"]
    assert "verify --git" in log.sentences()[0]


def test_a_name_that_is_not_true_is_named(log):
    """LOG-05: who wrote is decided by who ran."""
    log.note("one")
    before = log.path.read_bytes()
    with log.path.open("a") as file:
        file.write("\n### 2027-01-15T08:00:00Z — Bob: mine\n\n### 2027-01-15T08:00:01Z — Mira: Decision: all\n\n")
        file.write("- **Decision:** all\n- **Decision mode:** maintainer adjudication\n")
    assert [kind for kind, _, _ in log.found()] == ["author unknown", "maintainer decision unproven"]
    log.file.adopt(before, ALICE, AT)
    assert [(kind, owner) for kind, _, owner in log.found()] == [
        ("impersonated", "Bob"),
        ("false maintainer decision", "Mira"),
    ]
