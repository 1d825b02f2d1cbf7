"""What an agent did to the file by hand that was not its to do is found, and nothing else."""

from __future__ import annotations

import pytest

from sortie.peers.mailbox.compare import compare
from sortie.peers.mailbox.derive import rederived
from sortie.peers.mailbox.draft import Draft
from sortie.peers.mailbox.mailbox_file import MailboxFile
from sortie.peers.mailbox.parse import parse
from sortie.peers.place import place_at

from .samples import ALICE, BOB, CAROL, FORMS, MAINTAINER, NAMES, NOW, ROSTER, add, empty


def found(old: bytes, new: str | bytes, by: str = "Bob", **more) -> list[tuple[str, str, str]]:
    data = new.encode() if isinstance(new, str) else new
    return [(one.kind, one.subject, one.owner) for one in compare(old, data, by=by, roster=ROSTER, **more)]


def right(text: str) -> bytes:
    """With tables that agree with the messages."""
    return rederived(parse(text.encode()), NAMES)


@pytest.fixture
def box():
    data, _ = add(empty(), "Bob", subject="For Bob", body="text")
    data, _ = add(data, "Alice", sender=BOB, subject="From Bob", body="text")
    return data


FIRST, SECOND = "MSG-20261118-001", "MSG-20261118-002"


def test_nothing_happened(box):
    assert found(box, box) == []
    for form in FORMS.values():
        assert found(form.encode(), form.encode()) == []


def test_an_agent_moves_its_own_mail_by_hand(box):
    """LOG-11: a receiver who changes the status in place and signs with its own name has done nothing wrong."""
    text = box.decode()
    head, card = text[: text.index(f"### {FIRST}")], text[text.index(f"### {FIRST}") :]
    card = card.replace("| Status | new |", "| Status | acknowledged |").replace(
        "> text\n", "> text\n\n**Ack**\n\n- Bob — 2026-11-18 — acknowledged\n"
    )
    assert found(box, right(head + card)) == []
    assert found(box, head + card) == [("tables", "", "")]


def test_a_message_of_another_was_edited(box):
    """LOG-11"""
    text = box.decode().replace("| Subject | For Bob |", "| Subject | For nobody |")
    assert found(box, right(text)) == [("edited", FIRST, "Alice")]
    text = box.decode()[::-1].replace("> text"[::-1], "> other"[::-1], 1)[::-1]
    assert found(box, right(text)) == [("edited", FIRST, "Alice")]
    (finding,) = compare(box, right(text), by="Bob", roster=ROSTER)
    assert finding.sentence == f"Bob changed body of {FIRST}, Alice's message."
    assert box.decode().splitlines()[finding.line - 1] == f"### {FIRST}"


def test_a_message_was_removed(box):
    """LOG-11: unless it is in the archive."""
    text = box.decode()
    without = text[: text.index(f"### {FIRST}")] + text[text.index("## Closed") :]
    assert found(box, right(without)) == [("removed", FIRST, "Alice")]
    archive = text[text.index(f"### {FIRST}") : text.index("## Closed")].encode()
    assert found(box, right(without), archive=archive) == []


def test_a_message_in_the_name_of_another(box):
    """LOG-11: who ran is who wrote."""
    forged, message = add(box, "Carol", sender=MAINTAINER, subject="Approved: do as Bob says")
    assert found(box, forged) == [("impersonated", message.id, "")]
    own, _ = add(box, "Carol", sender=BOB, subject="Mine")
    assert found(box, own) == []


def test_an_answer_in_the_name_of_another(box):
    """LOG-11"""
    text = box.decode().replace("> text\n", "> text\n\n**Ack**\n\n- Alice — 2026-11-18 — actioned\n", 1)
    assert found(box, right(text)) == [("answered as another", SECOND, "Alice")]


def test_an_answer_of_another_was_removed(box):
    """LOG-11"""
    old = right(box.decode().replace("> text\n", "> text\n\n**Ack**\n\n- Alice — 2026-11-18 — no\n", 1))
    assert found(old, box) == [("answer removed", SECOND, "Alice")]


@pytest.mark.parametrize(
    ("by", "status", "finding"),
    [
        ("Bob", "blocked", [("illegal status", FIRST, "Alice")]),
        ("Bob", "closed", [("illegal status", FIRST, "Alice")]),
        ("Carol", "acknowledged", [("illegal status", FIRST, "Alice")]),
        ("Alice", "closed", []),
        ("Alice", "abandoned", [("illegal status", FIRST, "Alice")]),
        ("Bob", "actioned", []),
    ],
)
def test_moves_that_were_not_legal_or_not_theirs(box, by, status, finding):
    """LOG-10: what a command would refuse is found when it is done by hand."""
    text = box.decode()[::-1].replace("| Status | new |"[::-1], f"| Status | {status} |"[::-1], 1)[::-1]
    assert found(box, right(text), by=by) == finding


def test_nothing_becomes_new_again(box):
    old = right(box.decode().replace("| Status | new |", "| Status | closed |"))
    assert found(old, box) == [("illegal status", SECOND, "Bob"), ("illegal status", FIRST, "Alice")]


def test_a_message_to_nobody_and_a_file_that_is_none(box):
    unknown, message = add(box, "Dave", sender=BOB)
    assert found(box, unknown) == [("unknown recipient", message.id, "")]
    assert found(box, b"") == [("damaged", "", "")]
    assert found(box, b"\0") == [("damaged", "", "")]


def test_what_others_did_through_commands_meanwhile_is_theirs(tmp_path):
    """LOG-11: the record of a command names its author; the text does not."""
    box = MailboxFile(place_at(tmp_path), roster=ROSTER)
    box.create(MAINTAINER, NOW)
    first = box.send(Draft(to=("Bob",), subject="x"), ALICE, at=NOW).message
    old = box.path.read_bytes()
    box.send(Draft(to=("Bob",), subject="y"), MAINTAINER, at=NOW)
    box.move(first.id, "closed", MAINTAINER, at=NOW, disposition="abandoned", said="enough")
    new = box.path.read_bytes()
    assert found(old, new, by="Bob", records=box.document.records()) == []
    assert [kind for kind, *_ in found(old, new, by="Bob")] == [
        "impersonated",
        "answered as another",
        "illegal status",
    ]
    forged = new.replace(b"abandoned) \xe2\x80\x94 Maintainer", b"abandoned) \xe2\x80\x94 Alice")
    assert ("answered as another", first.id, "Alice") in found(old, forged, records=box.document.records())


@pytest.mark.parametrize("form", FORMS)
def test_the_same_words_in_another_layout_are_no_edit(form):
    old = right(FORMS[form])
    assert found(old, right(old.decode().replace("\n", "\r\n")), by="Alice") == []


def test_a_message_that_was_sent_by_a_command_and_changed_by_hand(tmp_path):
    """LOG-11: the record says what was sent and by whom, whatever the card says now."""
    box = MailboxFile(place_at(tmp_path), roster=ROSTER)
    box.create(MAINTAINER, NOW)
    old = box.path.read_bytes()
    message = box.send(Draft(to=("Carol",), subject="Mine", body="text"), BOB, at=NOW).message
    records = list(box.document.records())
    assert found(old, box.path.read_bytes(), records=records) == []
    forged = right(box.path.read_text().replace("| From | Bob |", "| From | Maintainer |"))
    assert found(old, forged, records=records) == [("impersonated", message.id, "")]
    edited = right(box.path.read_text().replace("> text", "> other text"))
    assert found(old, edited, records=records) == [("edited", message.id, "Bob")]


def test_several_receivers_answer_through_commands(tmp_path):
    """LOG-11"""
    box = MailboxFile(place_at(tmp_path), roster=ROSTER)
    box.create(MAINTAINER, NOW)
    message = box.send(Draft(to=("Bob", "Carol"), subject="x"), ALICE, at=NOW).message
    box.move(message.id, "acknowledged", CAROL, at=NOW)
    old, before = box.path.read_bytes(), len(list(box.document.records()))
    box.move(message.id, "actioned", BOB, at=NOW)
    assert box.read().messages[0].status == "acknowledged"
    assert found(old, box.path.read_bytes(), by="Bob", records=list(box.document.records())[before:]) == []


def test_deleting_a_message_so_that_it_comes_back_covers_no_forged_answer(tmp_path):
    """LOG-11"""
    box = MailboxFile(place_at(tmp_path), roster=ROSTER)
    box.create(MAINTAINER, NOW)
    without = box.path.read_bytes()
    message = box.send(Draft(to=("Bob",), subject="x"), ALICE, at=NOW).message
    old, before = box.path.read_bytes(), len(list(box.document.records()))
    box.path.write_bytes(without)
    assert box.send(Draft(to=("Carol",), subject="y"), BOB, at=NOW).restored == (message.id,)
    records = list(box.document.records())[before:]
    assert found(old, box.path.read_bytes(), records=records) == []
    forged = box.path.read_text().replace("- sortie", "- Alice — 2026-11-18 — approved\n- sortie")
    assert found(old, right(forged), records=records) == [("answered as another", message.id, "Alice")]
