"""The file in a checkout: sending, moving, restoring what an editor saved over, archiving, refusing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sortie.errors import SortieError
from sortie.peers.author import Author, AuthorityError
from sortie.peers.mailbox.archive import MOST_ROWS, archive
from sortie.peers.mailbox.derive import closed_ids, rederived
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.mailbox.parse import parse
from sortie.peers.mailbox.shown import note_shown, shown_before
from sortie.peers.place import place_at

from .samples import ALICE, BOB, BOLD, CAROL, MAINTAINER, NAMES, NOW, ROSTER, RULES


@pytest.fixture
def place(tmp_path):
    return place_at(tmp_path)


@pytest.fixture
def box(place):
    file = MailboxFile(place, roster=ROSTER)
    file.create(MAINTAINER, NOW)
    return file


def send(box, to="Bob", author=ALICE, at=NOW, **words):
    return box.send(Draft(to=tuple(to.split("+")), **{"subject": "Hello", **words}), author, at=at).message


def sound(box):
    """LOG-10: the tables follow from the messages."""
    mailbox = box.read()
    assert rederived(mailbox, NAMES) == mailbox.data
    return mailbox


def test_a_message_lives_from_new_to_closed(box):
    """LOG-10"""
    message = send(box, "bob", subject="Please review", body="the parser", type="request", priority="p1")
    assert (message.id, message.recipients, message.status) == ("MSG-20261118-001", ("Bob",), "new")
    assert box.unread("BOB") == [message]
    assert box.move(message.id, "acknowledged", BOB, at=NOW + 1, said="on it").message.status == "acknowledged"
    assert box.unread("Bob") == []
    box.move(message.id, "blocked", BOB, at=NOW + 2, said="on MSG-20261118-009")
    box.move(message.id, "actioned", BOB, at=NOW + 3)
    done = box.move(message.id, "closed", ALICE, at=NOW + 4, said="thanks", disposition="resolved").message
    assert (done.status, done.disposition, done.body) == ("closed", "resolved", "the parser")
    assert [(ack.actor, ack.text) for ack in done.acks] == [
        ("Bob", "acknowledged: on it"),
        ("Bob", "blocked: on MSG-20261118-009"),
        ("Bob", "actioned"),
        ("Alice", "Closed (resolved) — thanks"),
    ]
    assert closed_ids(sound(box)) == ["msg-20261118-001"]


def test_to_ask_for_the_same_move_twice_does_it_once(box):
    message = send(box)
    assert not box.move(message.id, "acknowledged", BOB, at=NOW).repeated
    before = box.path.read_bytes()
    assert box.move(message.id.lower(), "acknowledged", BOB, at=NOW).repeated
    assert box.path.read_bytes() == before


def test_a_message_with_a_key_is_sent_once(box):
    draft = Draft(to=("Maintainer",), subject="Task a is escalated")
    first = box.send(draft, ALICE, at=NOW, key="escalated:a")
    again = box.send(draft, ALICE, at=NOW + 5, key="escalated:a")
    assert (first.repeated, again.repeated, again.message.id) == (False, True, first.message.id)
    assert len(sound(box).messages) == 1


def test_unknown_receivers_are_refused(box):
    """LOG-10: with the name that was meant; nothing is written."""
    before = box.path.read_bytes()
    with pytest.raises(
        SortieError, match=r'Nobody here is called "Bobb"; did you mean "Bob"\? Messages go to Alice'
    ):
        send(box, "Alice+Bobb")
    with pytest.raises(SortieError, match="A message without a receiver"):
        box.send(Draft(to=(), subject="x"), ALICE, at=NOW)
    assert box.path.read_bytes() == before
    assert send(box, "everyone").recipients == ("all",)
    assert send(box, "carol+BOB+Bob").recipients == ("Carol", "Bob")


def test_an_unknown_message_is_named_with_the_one_that_was_meant(box):
    send(box)
    with pytest.raises(SortieError, match='There is no message MSG-20261118-002; did you mean "MSG-20261118-001"'):
        box.move("MSG-20261118-002", "acknowledged", BOB, at=NOW)


def test_two_cards_of_one_id_are_refused_not_guessed(box):
    message = send(box)
    text = box.path.read_text()
    card = text[text.index(f"### {message.id}") : text.index("## Closed")]
    box.path.write_text(text.replace(card, card + card))
    with pytest.raises(SortieError, match="There are 2 messages MSG-20261118-001, in lines 30, 46"):
        box.move(message.id, "acknowledged", BOB, at=NOW)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\0\1\2 binary", "is no text"),
        (b"# Notes\n\nnothing here\n", "is no mailbox"),
        (
            b"## Open Queue\n\n## Inbox Snapshot\n\n## Open Queue\n",
            "has the section `## Open Queue (Newest First)` twice",
        ),
    ],
)
def test_a_damaged_mailbox_is_an_error_and_stays_as_it_is(box, content, said):
    """LOG-11: it never counts as one without mail."""
    box.path.write_bytes(content)
    for action in (
        box.read,
        lambda: box.unread("Bob"),
        lambda: box.overdue(NOW, lambda *_: 0),
        lambda: send(box),
        lambda: box.rederive(MAINTAINER, NOW),
        lambda: archive(box, MAINTAINER, NOW),
    ):
        with pytest.raises(SortieError) as error:
            action()
        assert said in str(error.value)
    assert box.path.read_bytes() == content


@pytest.mark.parametrize("thing", ["missing", "link", "fifo", "directory"])
def test_what_is_no_file_is_an_error(place, thing):
    """LOG-11"""
    box = MailboxFile(place, roster=ROSTER)
    if thing == "link":
        (place.root / "other.md").write_bytes(b"## Open Queue\n")
        box.path.symlink_to("other.md")
    elif thing == "fifo":
        os.mkfifo(box.path)
    elif thing == "directory":
        box.path.mkdir()
    for action in (box.read, lambda: send(box)):
        with pytest.raises(SortieError):
            action()


def test_a_locked_mailbox_names_who_holds_it(box):
    """LOG-11: it is an error that says so, never an empty one."""
    program = (
        "import sys, pathlib; from sortie.peers.shared_document import SharedDocument as D\n"
        "with D(pathlib.Path(sys.argv[1])).held(): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(box.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        hasty = MailboxFile(place_at(box.path.parent), roster=ROSTER, patience=0.05)
        with pytest.raises(SortieError, match=f"Process {holder.pid} "):
            send(hasty)
        holder.stdin.close()
    assert send(hasty).id == "MSG-20261118-001"


def test_who_wrote_is_on_record(box):
    """LOG-11"""
    author = Author(name="Alice", role="agent", run_id="r-1")
    message = send(box, author=author)
    box.move(message.id, "acknowledged", BOB, at=NOW)
    said = [(record.subject, record.author, record.role, record.run_id) for record in box.document.records()]
    assert said[-2:] == [
        ("MSG-20261118-001 sent", "Alice", "agent", "r-1"),
        ("MSG-20261118-001 acknowledged", "Bob", "agent", ""),
    ]


def test_what_an_editor_saved_over_comes_back_and_says_so(box):
    """LOG-11: messages are only added, so none goes away because somebody had the file open."""
    first = send(box, subject="First")
    opened = box.path.read_bytes()
    box.move(first.id, "acknowledged", BOB, at=NOW + 1, said="yes")
    second = send(box, "Carol", subject="Second", body="two\nlines")
    box.move(second.id, "actioned", CAROL, at=NOW + 2)
    box.path.write_bytes(opened.replace(b"# Mailbox", b"# Our mailbox"))
    done = box.send(Draft(to=("Bob",), subject="Third"), ALICE, at=NOW + 3)
    assert done.restored == (first.id, second.id)
    assert done.message.id == "MSG-20261118-003"
    mailbox = sound(box)
    assert b"# Our mailbox" in mailbox.data
    found = {message.id: message for message in mailbox.messages}
    assert found[first.id].status == "acknowledged"
    assert [ack.text for ack in found[first.id].acks] == [
        "acknowledged: yes",
        f"restored: an older version of this file had been saved over {first.id}",
    ]
    assert (found[second.id].status, found[second.id].body) == ("actioned", "two\nlines")
    # The same old version, saved once more.
    box.path.write_bytes(opened)
    assert send(box).id == "MSG-20261118-004"
    again = {message.id: message for message in sound(box).messages}
    assert set(again) == {first.id, second.id, done.message.id, "MSG-20261118-004"}
    assert (again[first.id].status, again[second.id].status) == ("acknowledged", "actioned")


def test_two_answers_of_one_second_are_told_apart(box):
    """LOG-11: of two messages that are answered alike, the one whose answer was saved over gets it back."""
    first, second = send(box), send(box)
    box.move(second.id, "acknowledged", BOB, at=NOW)
    opened = box.path.read_bytes()
    box.move(first.id, "acknowledged", BOB, at=NOW)
    assert [ack.date for message in box.read().messages for ack in message.acks] == [
        "2026-11-18T11:06:40Z",
        "2026-11-18T11:06:40.001Z",
    ]
    for _ in range(3):
        box.path.write_bytes(opened)
        assert first.id in box.send(Draft(to=("Bob",), subject="x"), ALICE, at=NOW).restored
        assert [sound(box).find(one.id)[0].message.status for one in (first, second)] == ["acknowledged"] * 2


def test_what_somebody_was_told_of_and_did_not_put_back_can_still_be(box):
    message = send(box)
    box.path.write_bytes(box.path.read_bytes().partition(b"### MSG")[0] + b"## Closed Summary\n")
    with box.document.held() as held:
        assert len(held.lost) == 1
    assert box.send(Draft(to=("Bob",), subject="x"), ALICE, at=NOW).restored == ()
    assert box.restore(NOW) == (message.id,)
    assert box.restore(NOW) == ()
    assert len(sound(box).messages) == 2


def test_an_id_is_not_given_again_while_its_message_is_gone(box):
    """LOG-11: the file may be an older one in the very moment in which a message is sent."""
    empty = box.path.read_bytes()
    first = send(box)
    with box.document.held():
        box.path.write_bytes(empty)
    box.path.write_bytes(empty)
    done = box.send(Draft(to=("Bob",), subject="x"), ALICE, at=NOW)
    assert done.message.id != first.id
    box.restore(NOW)
    assert {message.id for message in sound(box).messages} == {first.id, done.message.id}


def test_another_message_with_the_id_of_one_that_is_gone_does_not_hide_it(box):
    first = send(box, subject="Mine")
    by_hand = box.path.read_text().replace("| From | Alice |", "| From | Carol |")
    by_hand = by_hand.replace("| Subject | Mine |", "| Subject | Theirs |")
    box.path.write_text(by_hand)
    send(box, subject="next")
    assert sorted(card.message.subject for card in box.read().find(first.id)) == ["Mine", "Theirs"]


def test_what_is_only_written_in_another_way_is_not_restored(box):
    message = send(box, body="text")
    box.move(message.id, "acknowledged", BOB, at=NOW)
    box.path.write_text(
        box.path.read_text().replace("| From | Alice |", "| From   | Alice  |").replace("- Bob", "* Bob")
    )
    assert box.send(Draft(to=("Bob",), subject="x"), ALICE, at=NOW).restored == ()
    assert len(sound(box).find(message.id)[0].message.acks) == 1


def test_a_message_to_several_comes_back_with_the_answers_of_each(box):
    message = send(box, "Bob+Carol")
    opened = box.path.read_bytes()
    box.move(message.id, "acknowledged", BOB, at=NOW)
    box.move(message.id, "acknowledged", CAROL, at=NOW)
    box.path.write_bytes(opened)
    send(box)
    assert sound(box).find(message.id)[0].message.status == "acknowledged"


def test_closed_messages_go_to_the_archive_with_their_full_text(box):
    """LOG-10"""
    kept = send(box, subject="Stays")
    gone = send(box, subject="Goes", body="All of this\n\n```\nis kept\n```")
    box.move(gone.id, "closed", ALICE, at=NOW, disposition="withdrawn", said="not needed")
    text = box.path.read_text()
    card = text[text.index(f"### {gone.id}") : text.index(f"### {kept.id}")].rstrip()
    with pytest.raises(AuthorityError, match="Only Maintainer puts messages into the archive"):
        archive(box, BOB, NOW)
    assert archive(box, MAINTAINER, NOW) == [gone.id]
    assert card in box.archive_path.read_text()
    mailbox = sound(box)
    assert [message.id for message in mailbox.messages] == [kept.id]
    assert closed_ids(mailbox) == [gone.id.lower()]
    assert box.find(gone.id)[1].message.body == gone.body
    assert archive(box, MAINTAINER, NOW) == []
    assert send(box).id == "MSG-20261118-003", "an ID is never given twice"
    assert box.send(Draft(to=("Bob",), subject="x"), ALICE, at=NOW).restored == ()


def test_a_crash_between_archive_and_mailbox_loses_and_doubles_nothing(box):
    """LOG-10"""
    gone = send(box, body="text")
    box.move(gone.id, "closed", ALICE, at=NOW, disposition="resolved")
    before = box.path.read_bytes()
    archive(box, MAINTAINER, NOW)
    archived = box.archive_path.read_bytes()
    box.path.write_bytes(before)  # as it is when the archive was written and the mailbox was not
    assert archive(box, MAINTAINER, NOW) == [gone.id]
    assert box.archive_path.read_bytes() == archived
    assert sound(box).messages == []


def test_cards_of_people_are_archived_in_their_form(box):
    for text in (BOLD, RULES):
        box.path.write_text(text)
        closed = [message.id for message in box.read().messages if message.status == "closed"]
        for message in box.read().messages:
            if message.status != "closed":
                box.move(message.id, "closed", MAINTAINER, at=NOW, disposition="abandoned")
                closed.append(message.id)
        before = {message.id: message for message in box.read().messages}
        assert sorted(archive(box, MAINTAINER, NOW)) == sorted(closed)
        archived = parse(box.archive_path.read_bytes())
        assert {key: archived.find(key)[0].message for key in before} == before


def test_the_closed_summary_stays_short(box):
    data = box.path.read_text()
    rows = "".join(
        f"| MSG-20260101-{n:03} | 2026-01-01 | A -> B | resolved | x |\n" for n in range(MOST_ROWS + 30, 0, -1)
    )
    box.path.write_text(data + rows)
    cards = "".join(f"\n### MSG-20260101-{n:03}\n\nStatus: closed\n" for n in range(1, MOST_ROWS + 31))
    box.archive_path.write_text("# Mailbox Archive\n" + cards)
    archive(box, MAINTAINER, NOW)
    found = closed_ids(sound(box))
    assert len(found) == MOST_ROWS
    assert found[0] == f"msg-20260101-{MOST_ROWS + 30}"
    by_hand = data + rows + "| MSG-20250101-001 | 2025-01-01 | A -> B | resolved | in no archive |\n"
    box.path.write_text(by_hand)
    archive(box, MAINTAINER, NOW)
    assert "msg-20250101-001" in closed_ids(sound(box))


def test_tables_that_somebody_broke_are_made_right(box):
    """LOG-10"""
    send(box)
    assert not box.rederive(MAINTAINER, NOW)
    box.path.write_text(box.path.read_text().replace("| Bob | 1 |", "| Bob | 7 |"))
    assert box.rederive(MAINTAINER, NOW)
    sound(box)


def test_what_was_shown_is_remembered_and_changes_no_status(box, place):
    """LOG-11: to have been shown a message is no answer to it."""
    assert shown_before(place, "Bob") == set()
    note_shown(place, "BOB", ["MSG-1", "MSG-2"], [])
    assert shown_before(place, "bob") == {"MSG-1", "MSG-2"}
    note_shown(place, "Bob", ["MSG-3"], ["MSG-2", "MSG-3"])
    assert shown_before(place, "Bob") == {"MSG-2", "MSG-3"}
    for file in place.state.glob("mailbox-shown-*"):
        file.write_bytes(b"[[[")
    assert shown_before(place, "Bob") == set()
