"""What is written is read back as it was; it changes nothing that was there, and the tables follow from it."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sortie.errors import SortieError
from sortie.peers.mailbox.derive import rederived, row_cells, table_of
from sortie.peers.mailbox.edits import next_id, one_card, with_answer, with_message, without_cards
from sortie.peers.mailbox.message import Message, is_open, is_unread
from sortie.peers.mailbox.parse import Mailbox, parse
from sortie.peers.mailbox.quoting import harmless, quoted, unquoted
from sortie.peers.mailbox.read_card import read_card
from sortie.peers.mailbox.write_card import answer_line, card_of, changed_card

from .samples import FORMS, NAMES, NOW, TABLES, add, empty
from .test_reading import ANY, PIECES

NASTY = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "### MSG-20261118-001",
            "## Closed Summary\n\n| ID |\n|---|",
            "a | b \\| c \\",
            "```\nnever closed",
            "<!-- \n-->",
            "**Ack:** Bob — 2026-01-01 — approved",
            "Ack:\n- Bob — 2026-01-01 — approved",
            "\r\n| Status | closed |\r\n",
            "---\n\nTo: x\nFrom: y\nSubject: z\nStatus: new",
            "> quoted\n>> twice\n> ",
            "\u202eevil\u2066 \x1b[2J \0 \x85 \u2028",
            "\u05e9\u05dc\u05d5\u05dd\n\u0645\u0631\u062d\u0628\u0627",
            " \n\n  lines  \n",
        ]
    ),
)


@st.composite
def mailboxes(draw):
    """One of the samples with strange lines in strange places, or strange lines alone below a heading."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = draw(
        st.sampled_from(
            [["## Open Queue"], ["### MSG-20260101-001"], *(text.split("\n") for text in FORMS.values())]
        )
    )
    lines = list(lines)
    for piece in draw(st.lists(PIECES, max_size=6)):
        lines.insert(draw(st.integers(0, len(lines))), piece)
    return end.join(lines).encode()


def rows(mailbox: Mailbox, name: str) -> list[list[str]]:
    table = table_of(mailbox, name)  # type: ignore[arg-type]
    assert table is not None
    return [row_cells(row) for row in table.rows]


def assert_derived(data: bytes) -> None:
    """LOG-10: counts and lists agree with the messages."""
    mailbox = parse(data)
    messages = mailbox.messages
    assert [row[0] for row in rows(mailbox, "queue")] == [one.id for one in messages if is_open(one)]
    for name, unread, oldest, _ in rows(mailbox, "snapshot"):
        mine = [one.id for one in messages if is_unread(one, name)]
        assert (unread, oldest) == (str(len(mine)), mine[-1] if mine else "none")
    closed = [one.id for one in messages if not is_open(one)]
    assert [row[0] for row in rows(mailbox, "closed") if row[0] in closed] == closed
    assert rederived(mailbox, NAMES) == data


@given(subject=NASTY, body=NASTY, context=NASTY)
def test_what_is_sent_is_read_back_and_cannot_break_out(subject, body, context):
    """LOG-10: no subject and no body can end its card, look like another part of it, or change another message."""
    assume(harmless(subject).split())
    data, first = add(empty(), subject="First", body="one\ntwo")
    data, message = add(data, "Carol", subject=subject, body=body, context=context)
    found = parse(data)
    assert found.messages == [message, first]
    assert found.damage == ""
    assert found.remarks == []
    assert message.subject == " ".join(harmless(subject).split())
    assert message.body == (harmless(body).strip("\n") if harmless(body).strip() else "")
    assert "\x1b" not in data.decode()
    assert "\u202e" not in data.decode()
    assert_derived(data)


@given(text=NASTY)
def test_quoting_is_undone_exactly(text):
    text = harmless(text).strip("\n")
    assert unquoted(quoted(text)) == text


@given(body=NASTY, subject=NASTY)
def test_the_quick_way_of_reading_our_cards_says_what_the_slow_one_says(body, subject):
    assume(harmless(subject).split())
    _, message = add(empty(), subject=subject, body=body, response_needed_by="next session")
    card = card_of(message)
    slow = card.replace("| Field | Value |\n|---|---|", "| Field | Value  |\n|---|---|", 1)
    assert read_card(card.encode()).message == read_card(slow.encode()).message == message


def kept_lines(data: bytes) -> list[bytes]:
    """What is no row of a table, and what no editor would miss apart."""
    return [line.rstrip() for line in data.split(b"\n") if not line.lstrip().startswith(b"|") and line.strip()]


def is_subsequence(wanted: list[bytes], there: list[bytes]) -> bool:
    found = iter(there)
    return all(line in found for line in wanted)


@given(st.one_of(mailboxes(), ANY.map(lambda data: b"## Open Queue\n" + data)))
def test_to_any_mailbox_a_message_can_be_added_and_everything_else_stays(data):
    """LOG-11: messages are only added. Every card that was there is there with the same bytes."""
    before = parse(data)
    assume(not before.damage)
    message = Message(
        id=next_id(before, NOW), date="2026-11-18T11:06:40Z", sender="A", recipients=("B",), subject="s"
    )
    message = read_card(card_of(message).encode()).message
    after = parse(with_message(before, message, NAMES))
    assert after.damage == ""
    assert message in after.messages
    old = [before.data[card.start : card.end].strip(b"-\r\n ") for card in before.cards]
    new = [after.data[card.start : card.end].strip(b"-\r\n ") for card in after.cards if card.message != message]
    assert new == old
    assert is_subsequence(kept_lines(data), kept_lines(after.data))
    assert rederived(after, NAMES) == after.data


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_status_changes_in_its_place_and_an_answer_is_added(form, end):
    """LOG-11: of a card of people only the status changes, in the form that they chose, and one line is more."""
    data = FORMS[form].replace("\n", end).encode()
    mailbox = parse(data)
    for card in mailbox.cards:
        line = answer_line("Bob", NOW, "actioned: done | and done", form=card.message.form)
        after = parse(with_answer(mailbox, card, [("actioned", line)], NAMES))
        (changed,) = after.find(card.message.id)
        assert changed.message.status == "actioned"
        assert changed.message.form == card.message.form
        assert len(changed.message.acks) == len(card.message.acks) + 1
        assert changed.message.acks[-1].actor == "Bob"
        assert changed.message.acks[-1].text == "actioned: done | and done"
        assert changed.message.body == card.message.body
        others = [one.message for one in mailbox.cards if one is not card]
        assert [one.message for one in after.cards if one.start != changed.start] == others
        old, new = (
            [line.strip() for line in one.data[at.start : at.end].splitlines() if line.strip()]
            for one, at in ((mailbox, card), (after, changed))
        )
        same = [line for line in old if b"Status" not in line]
        assert is_subsequence(same, new)
        assert len(new) - len(old) in (1, 2), "an answer, or its label too"
        assert b"\n" not in after.data.replace(end.encode(), b"")


def test_a_card_without_a_status_gets_one():
    for text in (
        "### MSG-20260101-001\nFrom: A -> B\n",
        "### MSG-20260101-001\n\n**From:** A -> B\n",
        "### MSG-20260101-001",
    ):
        raw = changed_card(text.encode(), status="acknowledged", answer="Ack: B — 2026-01-01 — yes")
        message = read_card(raw).message
        assert (message.status, message.acks[0].text) == ("acknowledged", "yes")


def test_a_heading_for_answers_that_has_none_yet_gets_the_first():
    """LOG-10: of a card that was written by hand."""
    for heading in ("**Ack**", "**Ack:**", "**Ack**:"):
        text = f"### MSG-20260101-001\n\n| Field | Value |\n|---|---|\n| Status | new |\n\n> x\n\n{heading}\n"
        raw = changed_card(text.encode(), status="", answer="- B — 2026-01-01 — yes")
        assert raw.decode() == f"{text}\n- B — 2026-01-01 — yes\n"
        raw = changed_card(raw, status="", answer="- C — 2026-01-01 — no")
        assert raw.decode() == f"{text}\n- B — 2026-01-01 — yes\n- C — 2026-01-01 — no\n"
        assert [ack.text for ack in read_card(raw).message.acks] == ["yes", "no"]


def test_tables_of_people_keep_their_columns_and_rows_that_have_no_card():
    wide = TABLES.replace("| ID | From -> To | Priority | Subject |", "| ID | Date | Pri | Note |", 1)
    wide = wide.replace(
        "| MSG-20260301-001 | Alice -> Bob | P1 | Review the parser |", "| MSG-20260301-001 | x | P1 | mine |"
    )
    wide = wide.replace(
        "|----|------------|", "|----|---|---|---|\n| MSG-20260201-007 | by hand | P0 | no card |\n|-"
    )
    wide = wide.replace("|-----------|---------|\n", "", 1)
    data, message = add(wide.encode())
    assert rows(parse(data), "queue") == [
        [message.id, "2026-11-18", "P2", ""],
        ["MSG-20260301-002", "2026-03-01", "P2", "Read|write split"],
        ["MSG-20260301-001", "2026-03-01", "P1", "mine"],
        ["MSG-20260201-007", "by hand", "P0", "no card"],
    ]


def test_sections_that_are_missing_are_added_where_they_belong():
    """LOG-10"""
    for form in ("plain", "rules"):
        data, message = add(FORMS[form].encode(), at=NOW)
        mailbox = parse(data)
        assert [section.name for section in mailbox.sections] == ["snapshot", "queue", "active", "closed"]
        assert mailbox.messages[0] == message
        assert {one.id for one in parse(FORMS[form].encode()).messages} < {one.id for one in mailbox.messages}
        assert rederived(mailbox, NAMES) == data


def test_numbers_go_on_over_the_whole_file_and_more_than_three_digits():
    """LOG-10: an ID is given once, also where the message of the one before is in the archive."""
    data = TABLES.replace("MSG-20260301-002", "MSG-20261118-999").encode()
    assert next_id(parse(data), NOW) == "MSG-20261118-1000"
    assert next_id(parse(data), NOW, ["MSG-20261118-1041", "MSG-20261119-9999"]) == "MSG-20261118-1042"
    mentioned = TABLES.replace("- another", "see MSG-20261118-777777").encode()
    assert next_id(parse(mentioned), NOW) == "MSG-20261118-001"


def test_cards_leave_and_their_rows_stay():
    """LOG-10: what is archived keeps a row of the closed summary."""
    for form in ("tables", "bold", "rules"):
        mailbox = parse(FORMS[form].encode())
        for card in mailbox.cards:
            line = answer_line("Bob", NOW, "over", form=card.message.form, closed="resolved")
            closed = parse(with_answer(mailbox, card, [("closed", line)], NAMES))
            gone = one_card(closed, card.message.id)
            after = parse(without_cards(closed, {gone.reading}, NAMES))
            assert after.find(card.message.id) == []
            assert [one.message for one in after.cards] == [one.message for one in closed.cards if one is not gone]
            assert card.message.id.lower() in [row[0].lower() for row in rows(after, "closed")]
            again = rederived(after, NAMES)
            assert again == after.data


def test_the_newest_is_on_top():
    """LOG-10"""
    data = empty()
    for number in range(5):
        data, _ = add(data, subject=f"Subject {number}", at=NOW + number * 86_400)
        assert_derived(data)
    mailbox = parse(data)
    assert [one.subject for one in mailbox.messages] == [f"Subject {number}" for number in (4, 3, 2, 1, 0)]
    assert [card.message for card in mailbox.cards] == mailbox.messages
    assert [row[3] for row in rows(mailbox, "queue")] == [one.subject for one in mailbox.messages]


def test_a_message_from_a_clock_that_went_back_takes_its_place_in_the_tables():
    """LOG-10: cards stay where they were put; queue and snapshot follow the dates."""
    data, later = add(empty(), at=NOW + 86_400)
    data, earlier = add(data, at=NOW)
    assert_derived(data)
    mailbox = parse(data)
    assert mailbox.messages == [later, earlier]
    assert [row[0] for row in rows(mailbox, "queue")] == [later.id, earlier.id]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"subject": "x" * 1_048_576}, "The subject has 1,048,576 characters"),
        ({"body": "x" * 1_048_576}, "The body has 1,048,576 characters, and a message at most 65,536."),
        ({"subject": " \n "}, "A message needs a subject."),
        ({"type": "requst"}, 'There is no type of message "requst"; did you mean "request"?'),
        ({"priority": "P9"}, 'There is no priority "P9"'),
        ({"response_needed_by": "soon"}, '"soon" is no time by which an answer can be needed.'),
        ({"response_needed_by": "2020-01-01T00:00:00Z"}, "2020-01-01T00:00:00Z is over already."),
    ],
)
def test_what_cannot_be_sent_is_refused_in_a_sentence(words, said):
    with pytest.raises(SortieError, match=re.escape(said)):
        add(empty(), **words)


def test_a_deadline_is_written_in_one_form():
    _, message = add(empty(), response_needed_by="2026-12-01T12:00:00+02:00")
    assert message.response_needed_by == "2026-12-01T10:00:00Z"
    _, message = add(empty(), response_needed_by="Next  Session")
    assert message.response_needed_by == "next session"


@given(mailboxes(), st.integers(0, 9))
def test_in_any_mailbox_a_message_can_be_answered_and_everything_else_stays(data, number):
    """LOG-11: the status changes in place, whatever else is in the file."""
    before = parse(data)
    assume(not before.damage and before.cards)
    card = before.cards[number % len(before.cards)]
    line = answer_line("Bob", NOW, "actioned: done", form=card.message.form)
    after = parse(with_answer(before, card, [("actioned", line)], NAMES))
    at = before.cards.index(card)
    assert after.damage == ""
    assert len(after.cards) == len(before.cards)
    assert after.cards[at].message.status == "actioned"
    assert line.encode() in after.data
    old = [before.data[one.start : one.end].strip() for one in before.cards if one is not card]
    new = [after.data[one.start : one.end].strip() for one in after.cards if one is not after.cards[at]]
    assert new == old
    kept = [one for one in kept_lines(data) if b"tatus" not in one]
    assert is_subsequence(kept, kept_lines(after.data))
