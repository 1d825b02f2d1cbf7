"""Work log and mailbox after a turn: what was edited or removed is back, and what was rightly added stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.peers.author import Author
from sortie.peers.mailbox import compare as mailbox_compare
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.edits import new_mailbox, with_message
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.mailbox.message import Message
from sortie.peers.mailbox.parse import parse as parse_mailbox
from sortie.peers.roster import Roster
from sortie.peers.turns.look_back import look_back
from sortie.peers.turns.mend import mend_mailbox, mend_worklog
from sortie.peers.turns.revert import revert
from sortie.peers.turns.review import MILD
from sortie.peers.turns.snapshot import recall, take_before
from sortie.peers.worklog.compose import Note
from sortie.peers.worklog.parse import parse
from sortie.peers.worklog.verify import compare
from sortie.peers.worklog.worklog_file import WorklogFile

from .repository import LOG, shared_repository

AT = 1_800_000_000.0
MIA = Author(name="Mia", role="maintainer")
ALICE, BOB = (Author(name=name, role="agent") for name in ("Alice", "Bob"))
ROSTER = Roster(agents=("Alice", "Bob"), maintainer="Mia")


def entry(actor, title, body="Text.", at="2026-01-02T10:00:00Z"):
    return f"\n### {at} — {actor}: {title}\n\n{body}\n"


def judged(old, new):
    return compare(old, new, by="Alice", maintainer="Mia")


def mended(new, old=LOG):
    return mend_worklog(old.encode(), new.encode(), lambda now: judged(old.encode(), now)).decode()


EARLIER = {
    "edited": LOG.replace("It is fast.", "It is slow."),
    "removed": LOG[: LOG.index("### 2026-01-01T11")],
    "both gone": LOG[: LOG.index("### 2026-01-01T10")],
    "reordered": LOG[: LOG.index("### 2026-01-01T10")]
    + LOG[LOG.index("### 2026-01-01T11") :]
    + "\n"
    + LOG[LOG.index("### 2026-01-01T10") : LOG.index("### 2026-01-01T11")],
    "another's status": LOG.replace("(Bob): parser", "(Bob): idle"),
    "another's status removed": LOG.replace("Now Working (Bob): parser\n", ""),
    "the maintainer's line": LOG.replace("Focus: release", "Focus: none"),
    "a row edited": LOG.replace("Use TOML", "Use YAML"),
    "a row removed": LOG.replace("| Use TOML | Mia | 2026-01-01T10:00:00Z | Format |\n", ""),
    "the maintainer's decision": LOG.replace(
        "| Format |\n", "| Format |\n| Use SQL | Mia | 2026-01-02 | Store |\n"
    ),
}


@pytest.mark.parametrize("what", EARLIER)
def test_earlier_text_is_back_and_new_entries_stay(what):
    """LOG-04, LOG-05"""
    new = entry("Alice", "My work")
    assert mended(EARLIER[what]) == LOG
    assert mended(EARLIER[what] + new) == LOG + new


def test_an_emptied_log_is_back():
    """LOG-04"""
    assert mended("") == LOG
    assert mended(entry("Alice", "Anew").lstrip()) == LOG + entry("Alice", "Anew")


def test_entries_that_claim_another_go():
    """LOG-05: what is not true of its author does not stay in the log."""
    assert mended(LOG + entry("Bob", "I agree") + entry("Alice", "Mine")) == LOG + entry("Alice", "Mine")


def test_a_claim_that_shows_only_in_the_mended_log_goes_too():
    """LOG-05: while Bob's own line was gone, nobody was called so."""
    nobody = LOG.replace("Now Working (Bob): parser\n", "") + "\n### 2026-01-02T10:00:00Z — Bob\n\nI agree.\n"
    assert mended(nobody) == LOG


def test_new_entries_in_the_middle_go_to_the_end():
    at = LOG.index("### 2026-01-01T11")
    assert mended(LOG[:at] + entry("Alice", "Mine").lstrip() + "\n" + LOG[at:]) == LOG + entry("Alice", "Mine")


def test_what_an_agent_may_do_stays_beside_what_it_may_not():
    """LOG-05: its own status line, a row of its own, a section, and more text for its own last entry."""
    own = LOG + entry("Alice", "Last")
    new = own.replace("It is fast.", "It is slow.").replace("(Alice): idle", "(Alice): tests")
    new = new.replace("| Format |\n", "| Format |\n| Use ruff | Alice | 2026-01-02T10:00:00Z | Tools |\n")
    new += "More text.\n\n## Session 2 — 2026-01-03\n" + entry("Alice", "Newest", at="2026-01-03T10:00:00Z")
    found = mended(new, own)
    assert found == new.replace("It is slow.", "It is fast.")


def test_lines_end_as_they_did():
    old = LOG.replace("\n", "\r\n")
    new = old.replace("It is fast.", "It is slow.") + entry("Alice", "Mine")
    assert mended(new, old) == old + entry("Alice", "Mine").replace("\n", "\r\n")


def test_bytes_that_are_no_text_stay_as_they_are():
    new = LOG.replace("It is fast.", "It is slow.").encode() + entry("Alice", "Mine", "x").encode() + b"\xff\xfe\n"
    result = mend_worklog(LOG.encode(), new, lambda now: judged(LOG.encode(), now))
    assert result == LOG.encode() + entry("Alice", "Mine", "x").encode() + b"\xff\xfe\n"


PIECES = st.one_of(
    st.sampled_from(
        [
            *(entry(actor, title) for actor in ("Alice", "Bob", "Mia") for title in ("One", "Two")),
            "Now Working (Alice): more\n",
            "Now Working (Bob): less\n",
            "| Use X | Alice | 2026 | Y |\n",
            "| Use X | Mia | 2026 | Y |\n",
            "## Session 9\n",
            "```\n",
            "<!--\n",
            "\r\n",
            "- **Decision:** no\n- **Decision mode:** maintainer adjudication\n",
        ]
    ),
    st.text(max_size=30),
)


@given(edits=st.lists(st.tuples(st.integers(0, len(LOG)), st.integers(0, 200), PIECES), min_size=1, max_size=6))
def test_whatever_was_done_the_earlier_entries_are_back(edits):
    """LOG-04: after mending there is nothing left to find; mending again changes nothing."""
    new = LOG
    for at, length, piece in edits:
        new = new[:at] + piece + new[at + length :]
    once = mended(new)
    old = parse(LOG.encode())
    kept = parse(once.encode())
    assert [one.digest for one in kept.entries[: len(old.entries)]][:-1] == [one.digest for one in old.entries][:-1]
    assert old.entries[-1].text in kept.entries[len(old.entries) - 1].text
    left = [one for one in judged(LOG.encode(), once.encode()) if one.kind not in MILD]
    assert left == []
    assert mended(once) == once


# -- the mailbox ----------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    repository = shared_repository(tmp_path / "repo")
    mail = MailboxFile(repository.place)
    mail.create(MIA, AT)
    mail.send(Draft(to=("Alice",), type="request", subject="Look", body="At the parser."), BOB, at=AT)
    mail.send(Draft(to=("Bob",), type="request", subject="Answer", body="When?"), ALICE, at=AT + 1)
    repository.commit("mail")
    return repository


def mended_mail(old, new):
    def judge(now):
        return mailbox_compare.compare(old.encode(), now, by="Alice", roster=ROSTER)

    return mend_mailbox(old.encode(), new.encode(), judge, ROSTER.names).decode()


def test_cards_that_were_edited_or_removed_are_back(repository):
    """LOG-05: messages are append-only."""
    old = repository.read("MAILBOX.md")
    assert mended_mail(old, old.replace("At the parser.", "Nowhere.")) == old
    first = parse_mailbox(old.encode()).cards[0]
    assert mended_mail(old, (old.encode()[: first.start] + old.encode()[first.end :]).decode()) == old


def test_new_cards_and_rightful_answers_stay(repository):
    """LOG-05"""
    old = repository.read("MAILBOX.md")
    mail = MailboxFile(repository.place)
    mail.send(Draft(to=("Bob",), type="notify", subject="New", body="Text."), ALICE, at=AT + 2)
    mail.move("MSG-20270115-001", "acknowledged", ALICE, at=AT + 3)
    good = repository.read("MAILBOX.md")
    assert mended_mail(old, good) == good
    assert mended_mail(old, good.replace("When?", "Never.")) == good


def test_a_card_in_the_name_of_another_goes(repository):
    old = repository.read("MAILBOX.md")
    mail = MailboxFile(repository.place)
    mail.send(Draft(to=("Alice",), type="notify", subject="New", body="Text."), BOB, at=AT + 2)
    assert mended_mail(old, repository.read("MAILBOX.md")) == old


def small_mailbox():
    mailbox = parse_mailbox(new_mailbox(ROSTER.names, AT))
    for number, (sender, to) in enumerate((("Bob", "Alice"), ("Alice", "Bob"), ("Mia", "Alice"))):
        card = Message(
            id=f"MSG-20270115-00{number}", sender=sender, recipients=(to,), type="request", subject="S", body="B."
        )
        mailbox = parse_mailbox(with_message(mailbox, card, ROSTER.names))
    return mailbox.data.decode()


MAIL = small_mailbox()
MAIL_PIECES = st.one_of(
    st.sampled_from(
        [
            "### MSG-20270116-001\n\nFrom: Alice -> Bob\nStatus: new\n",
            "### MSG-20270116-002\n\nFrom: Bob -> Alice\nStatus: new\n",
            "| Status | closed |\n",
            "**Ack:** Bob — 2026-01-01 — done\n",
            "## Active Messages\n",
            "```\n",
            "\0",
        ]
    ),
    st.text(max_size=30),
)


@given(
    edits=st.lists(st.tuples(st.integers(0, len(MAIL)), st.integers(0, 300), MAIL_PIECES), min_size=1, max_size=5)
)
def test_whatever_was_done_the_earlier_messages_are_back(edits):
    """LOG-05: after mending there is nothing left to find; mending again changes nothing."""
    new = MAIL
    for at, length, piece in edits:
        new = new[:at] + piece + new[at + length :]
    once = mended_mail(MAIL, new)
    left = mailbox_compare.compare(MAIL.encode(), once.encode(), by="Alice", roster=ROSTER)
    assert [one for one in left if one.kind not in MILD] == []
    assert mended_mail(MAIL, once) == once


# -- both, in a repository ------------------------------------------------------------------------------------


def test_the_documents_of_a_turn_are_mended_and_the_agents_version_is_kept(repository):
    """LOG-04, LOG-05"""
    mail = repository.read("MAILBOX.md")
    before = take_before(repository.place, 1)
    bad = LOG.replace("It is fast.", "It is slow.") + entry("Alice", "Mine")
    repository.write("WORKLOG.md", bad)
    repository.write("MAILBOX.md", mail.replace("At the parser.", "Nowhere."))
    done = revert(repository.place, look_back(repository.place, "Alice", before), at=AT)
    assert (done.files, done.documents, done.problems) == ((), ("WORKLOG.md", "MAILBOX.md"), ())
    assert repository.read("WORKLOG.md") == LOG + entry("Alice", "Mine")
    assert repository.read("MAILBOX.md") == mail
    assert repository.sh(f"git show {done.ref}:WORKLOG.md") == bad.strip()
    # Once more, as after a crash: everything is done.
    again_before, again_after = (recall(repository.place, 1, when) for when in ("before", "after"))
    assert again_before is not None
    again = revert(repository.place, look_back(repository.place, "Alice", again_before, again_after), at=AT)
    assert again.problems == ()
    assert repository.read("WORKLOG.md") == LOG + entry("Alice", "Mine")
    assert repository.sh(f"git rev-list --count {before.commit}..{done.ref}") == "1"


def test_what_others_wrote_after_the_turn_is_neither_taken_for_the_agents_nor_lost(repository):
    """LOG-05: by our commands it stays; by hand it is at least kept."""
    before = take_before(repository.place, 1)
    repository.write("WORKLOG.md", LOG.replace("It is fast.", "It is slow."))
    looked = look_back(repository.place, "Alice", before)
    WorklogFile(repository.place.worklog).record(Note(title="Mine", text="By command."), MIA, at=AT)
    by_hand = entry("Mia", "By hand")
    with repository.place.worklog.open("a") as log:
        log.write(by_hand)
    done = revert(repository.place, looked, at=AT)
    assert done.problems == ()
    assert "It is fast." in repository.read("WORKLOG.md")
    assert "By command." in repository.read("WORKLOG.md")
    assert by_hand.strip() in repository.sh(f"git show {done.ref}:WORKLOG.md")
    assert repository.sh(f"git show {done.ref}^:WORKLOG.md").count("By command.") == 0


def test_a_log_that_cannot_be_mended_is_told_and_the_rest_is_done(repository):
    before = take_before(repository.place, 1)
    repository.write("WORKLOG.md", LOG.replace("It is fast.", "It is slow."))
    repository.write("bob/b.py", "mine")
    looked = look_back(repository.place, "Alice", before)
    repository.sh("rm WORKLOG.md; mkdir WORKLOG.md")
    done = revert(repository.place, looked, at=AT)
    assert done.files == ("bob/b.py",)
    assert "WORKLOG.md could not be mended" in done.problems[0]
