"""Whole turns looked back at: what an agent does with its own hands, beside what others do by our commands."""

import os

import pytest

from sortie.peers.author import Author
from sortie.peers.charter.charter_file import CharterFile
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.snapshot import recall, take_before
from sortie.peers.worklog.compose import Decision, Note
from sortie.peers.worklog.worklog_file import WorklogFile

from .repository import CHARTER, LOG, shared_repository

AT = 1_800_000_000.0
MIA = Author(name="Mia", role="maintainer")
ALICE = Author(name="Alice", role="agent")
OURS = Author(name="sortie", role="orchestrator")


@pytest.fixture
def repository(tmp_path):
    return shared_repository(tmp_path / "repo")


def turn(repository, act, agent="Alice"):
    before = take_before(repository.place, 1)
    act()
    return look_back(repository.place, agent, before)


def kinds(looked):
    return [(finding.kind, finding.owner) for finding in looked.findings]


def entry(actor, title, body="Text."):
    return f"\n### 2026-01-02T10:00:00Z — {actor}: {title}\n\n{body}\n"


def test_a_good_turn_has_nothing_to_find(repository):
    def work():
        repository.write("alice/a.py", "a = 2\n")
        log = LOG.replace("(Alice): idle", "(Alice): layout")
        repository.write("WORKLOG.md", log + entry("Alice", "More layout"))

    looked = turn(repository, work)
    assert looked.findings == []
    assert [file.path for file in looked.facts.changes.files] == ["WORKLOG.md", "alice/a.py"]


EDITS = {
    "an entry edited": (LOG.replace("It is fast.", "It is slow."), ("edited", "Bob")),
    "an entry removed": (LOG[: LOG.index("### 2026-01-01T11")], ("removed", "Bob")),
    "words put into another's mouth": (LOG + "And it has a bug.\n", ("extended", "Bob")),
    "another's status": (LOG.replace("(Bob): parser", "(Bob): idle"), ("status line of another", "Bob")),
    "the maintainer's line": (LOG.replace("Focus: release", "Focus: none"), ("maintainer's line", "Mia")),
    "a row edited": (LOG.replace("Use TOML", "Use YAML"), ("index row edited", "Mia")),
    "a row removed": (
        LOG.replace("| Use TOML | Mia | 2026-01-01T10:00:00Z | Format |\n", ""),
        ("index row removed", "Mia"),
    ),
    "another's name": (LOG + entry("Bob", "I agree"), ("impersonated", "Bob")),
    "the maintainer's decision": (
        LOG.replace("| Format |\n", "| Format |\n| Use SQL | Mia | 2026-01-02T10:00:00Z | Store |\n"),
        ("false maintainer decision", "Mia"),
    ),
}


@pytest.mark.parametrize("what", EDITS)
def test_the_work_log_is_only_added_to_and_each_in_its_own_name(repository, what):
    """LOG-04, LOG-05: an edit or removal of what others wrote is found and named, with its owner."""
    log, expected = EDITS[what]
    looked = turn(repository, lambda: repository.write("WORKLOG.md", log))
    assert kinds(looked) == [expected]
    assert looked.violations == looked.findings


def test_an_own_entry_of_before_is_not_edited_either(repository):
    """LOG-04: entries are append-only, whoever wrote them."""
    looked = turn(
        repository, lambda: repository.write("WORKLOG.md", LOG.replace("I laid out", "I did not lay out"))
    )
    assert kinds(looked) == [("edited", "Alice")]


def test_what_others_record_by_our_commands_during_the_turn_is_theirs(repository):
    """LOG-05: who wrote is decided by who ran."""
    log = WorklogFile(repository.place.worklog)

    def work():
        decision = Decision(
            title="Use SQL",
            decision="Use SQL.",
            mode="maintainer adjudication",
            participants=("Mia",),
            rationale="It is there.",
            outcome="Used.",
        )
        log.record(decision, MIA, at=AT)
        log.set_status("Bob", "reviewing", MIA, AT)
        log.record(Note(title="Hello", text="From Alice"), ALICE, at=AT)
        log.record(Note(title="Told", text="By us"), OURS, at=AT, actor="Bob")

    assert turn(repository, work).findings == []


def test_a_decision_that_is_only_in_the_mailbox_is_told_once(repository):
    """LOG-13: a decision belongs into the work log; one that is only in the mailbox is reported."""
    mail = MailboxFile(repository.place)
    mail.create(MIA, AT)

    def decide():
        mail.send(
            Draft(to=("Bob",), type="notify", subject="Storage question", body="Decision: we use SQL."),
            ALICE,
            at=AT,
        )

    looked = turn(repository, decide)
    assert kinds(looked) == [("decision only in mail", "Alice")]
    assert looked.violations == []
    assert turn(repository, lambda: repository.write("alice/a.py", "2")).findings == []


def test_mail_of_others_is_not_edited(repository):
    """LOG-05: nobody speaks with another's voice."""
    mail = MailboxFile(repository.place)
    mail.create(MIA, AT)
    mail.send(
        Draft(to=("Alice",), type="request", subject="Please look", body="At the parser."),
        Author(name="Bob", role="agent"),
        at=AT,
    )
    looked = turn(
        repository,
        lambda: repository.write("MAILBOX.md", repository.read("MAILBOX.md").replace("At the parser", "Away")),
    )
    assert ("edited", "Bob") in kinds(looked)


def test_a_lane_is_that_of_the_charter_before_the_turn(repository):
    """LOG-08: editing CHARTER.md gives nobody a lane."""

    def grab():
        repository.write("CHARTER.md", CHARTER.replace("| Bob | `bob/` |", "| Alice | `bob/` |"))
        repository.write("bob/b.py", "mine")

    assert kinds(turn(repository, grab)) == [("charter changed", ""), ("lane of another", "Bob")]


def test_an_adopted_charter_counts_even_where_another_text_stands_in_the_file(repository):
    """LOG-08: what was changed in an earlier turn and never decided gives no lane in the next one."""
    CharterFile(repository.place).adopt("To begin with", MIA, at=AT)
    repository.write("CHARTER.md", CHARTER.replace("| Bob | `bob/` |", "| Alice | `bob/` |"))
    looked = turn(repository, lambda: repository.write("bob/b.py", "mine"))
    assert kinds(looked) == [("lane of another", "Bob")]


def test_a_charter_amended_by_the_maintainer_during_the_turn(repository):
    """LOG-08: a recorded decision of the maintainer amends it, and then it is no finding."""
    charter = CharterFile(repository.place)
    charter.adopt("To begin with", MIA, at=AT)
    looked = turn(repository, lambda: charter.adopt("Better", MIA, at=AT + 1, new=(CHARTER + "\nMore.\n").encode()))
    assert looked.findings == []


def replaced_by_link(root):
    (root / "copy.md").write_text(LOG)
    (root / "WORKLOG.md").unlink()
    (root / "WORKLOG.md").symlink_to("copy.md")


def replaced_by_fifo(root):
    (root / "WORKLOG.md").unlink()
    os.mkfifo(root / "WORKLOG.md")


def replaced_by_directory(root):
    (root / "WORKLOG.md").unlink()
    (root / "WORKLOG.md").mkdir()


def second_name(root):
    os.link(root / "WORKLOG.md", root / "alice/other")


REPLACED = {
    "a symbolic link": replaced_by_link,
    "a FIFO": replaced_by_fifo,
    "a directory": replaced_by_directory,
    "a file with a second name": second_name,
}


@pytest.mark.parametrize("instead", REPLACED)
def test_a_work_log_that_is_none_any_more(repository, instead):
    """LOG-04: also where the whole document goes."""
    looked = turn(repository, lambda: REPLACED[instead](repository.root))
    finding = looked.violations[0]
    assert finding.kind == "document replaced"
    assert finding.sentence == f"`WORKLOG.md` was replaced in the turn of Alice: there is {instead} now."


def test_a_work_log_that_was_emptied(repository):
    """LOG-04"""
    looked = turn(repository, lambda: repository.write("WORKLOG.md", ""))
    assert {finding.kind for finding in looked.violations} >= {
        "removed",
        "index row removed",
        "status line of another",
    }


def test_a_repository_that_is_gone_loses_no_turn(repository):
    """LOG-04: the documents are compared all the same."""

    def wreck():
        repository.write("WORKLOG.md", LOG.replace("It is fast.", "It is slow."))
        repository.sh("rm -rf .git")

    looked = turn(repository, wreck)
    assert kinds(looked) == [("repository damaged", ""), ("edited", "Bob")]
    assert looked.after is None
    assert "is gone" in looked.findings[0].sentence


def test_a_turn_that_a_crash_cut_short_is_looked_back_at_later(repository):
    """LOG-04, LOG-05: by what the repository kept, not by what a dead process knew."""
    take_before(repository.place, 1)
    repository.write("bob/b.py", "mine")
    repository.write("WORKLOG.md", LOG.replace("It is fast.", "It is slow."))
    before = recall(repository.place, 1, "before")
    assert before is not None
    assert kinds(look_back(repository.place, "Alice", before)) == [("lane of another", "Bob"), ("edited", "Bob")]


def test_commits_branches_and_resets_are_told(repository):
    second = repository.commit("second")

    def wreck():
        repository.sh("git reset -q --hard HEAD~1; git checkout -q -b mine; git branch -D main")

    looked = turn(repository, wreck)
    assert kinds(looked) == [("history rewritten", "")]
    assert repository.sh("git rev-parse refs/sortie/lost/1/heads/main") == second
    assert looked.remarks == (
        "HEAD was on the branch `main` before the turn and is on the branch `mine` now.",
        "The branch `mine` is new.",
    )


def test_looking_back_once_more_finds_the_same(repository):
    """After a crash both states are those that were kept, and what we wrote since is no part of the turn."""
    repository.sh("git branch other")
    repository.commit("second")

    def work():
        repository.write("bob/b.py", "mine")
        repository.sh("git commit -qa --amend -m other; git checkout -q -b mine")

    looked = turn(repository, work)
    WorklogFile(repository.place.worklog).record(Note(title="Told", text="By us"), OURS, at=AT, actor="Alice")
    before, after = (recall(repository.place, 1, when) for when in ("before", "after"))
    assert before is not None
    again = look_back(repository.place, "Alice", before, after)
    assert kinds(looked) == [("history rewritten", ""), ("lane of another", "Bob")]
    # Of what was on other refs then, nothing is known any more.
    assert kinds(again) == [("lane of another", "Bob")]
    assert again.facts.changes.files == looked.facts.changes.files
    assert (
        repository.sh("git for-each-ref --format='%(refname)' refs/sortie/lost") == "refs/sortie/lost/1/heads/main"
    )
