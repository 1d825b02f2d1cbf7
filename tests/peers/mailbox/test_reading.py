"""Every form in which people and tools write cards is read, with all its traps; and any other text too."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sortie.peers.mailbox.message import Ack, Message, is_for, is_unread, order, status_in, unread_by
from sortie.peers.mailbox.parse import parse

from .samples import BOLD, FORMS, NAMES, PLAIN, RULES, TABLES


def messages(text: str) -> dict[str, Message]:
    return {message.id: message for message in parse(text.encode()).messages}


def test_field_value_tables():
    """LOG-10: the table of a card is read by its names, with pipes in its cells, escaped or not."""
    found = messages(TABLES)
    assert list(found) == ["MSG-20260301-002", "MSG-20260301-001"]
    newer, older = found.values()
    assert (newer.sender, newer.recipients, newer.priority, newer.type) == ("Bob", ("Alice",), "P2", "request")
    assert (newer.subject, newer.context) == ("Read|write split", "a | b | c")
    assert newer.status == "acknowledged"
    assert newer.body == "- one point\n- another"
    assert newer.acks == (
        Ack(actor="Alice", date="2026-03-01", text="reading it today"),
        Ack(actor="Alice", date="2026-03-02", text="still at it"),
    )
    assert (older.status, older.status_text, older.response_needed_by) == ("new", "unread", "next session")


def test_bold_lines_with_headings_rules_and_fences_of_their_own():
    """LOG-10: a card ends where the next one begins, and nowhere before."""
    found = messages(BOLD)
    assert list(found) == ["MSG-20260211-003", "MSG-20260211-002"]
    newer, older = found.values()
    assert (newer.form, newer.sender, newer.recipients) == ("bold", "Alice", ("Bob",))
    assert newer.subject == "Lane complete | for review"
    assert newer.others == (("mode", "delivery-mirror"),)
    assert newer.context == ""
    assert "### Deliverables" in newer.body
    assert "### Review ask" in newer.body
    assert "**Context:** why this is here." in newer.body
    assert "Mallory" in newer.body
    assert newer.acks == (Ack(actor="Alice", date="2026-02-11", text="posted for Bob."),)
    assert (older.status, older.disposition, older.subject) == ("closed", "superseded", "An older one")
    assert older.acks == (
        Ack(actor="Alice", date="2026-02-11", text="fine by me | approved"),
        Ack(actor="Bob", date="2026-02-12", text="closed it"),
        Ack(actor="Alice", text="- first\n- second", kind="reply"),
    )


def test_plain_lines():
    """LOG-10"""
    (message,) = messages(PLAIN).values()
    assert (message.form, message.sender, message.recipients, message.status) == (
        "plain",
        "Alex",
        ("Blake",),
        "new",
    )
    assert message.body == "Please read it."
    assert message.acks == (Ack(actor="Blake", date="2026-01-01", text="counter C1: handle null."),)


def test_cards_between_rules_with_an_id_and_without():
    """LOG-10: old cards have no heading, some not even an ID; theirs follows from what never changes in them."""
    first, second = sorted(messages(RULES).values(), key=lambda one: one.id)
    assert (first.id, first.form, first.status) == ("MSG-20260208-001", "rule", "actioned")
    assert "and that." in first.body
    assert first.acks[0].text == "Reviewed and accepted:\n- with this,\n- and that."
    assert second.id.startswith("OLD-")
    assert (second.sender, second.recipients, second.status) == ("Claude", ("Codex",), "new")
    again = messages(RULES.replace("Status: unread", "Status: read").replace("Just text.", "Other text."))
    assert second.id in again
    assert again[second.id].status == "acknowledged"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("new", ("new", "")),
        ("unread", ("new", "")),
        ("Open", ("new", "")),
        ("read", ("acknowledged", "")),
        ("**Acknowledged**", ("acknowledged", "")),
        ("replied", ("actioned", "")),
        ("`blocked` on MSG-1", ("blocked", "")),
        ("closed", ("closed", "")),
        ("closed (resolved)", ("closed", "resolved")),
        ("Closed — superseded", ("closed", "superseded")),
        ("withdrawn", ("closed", "withdrawn")),
        ("abandoned", ("closed", "abandoned")),
        ("resolved", ("closed", "resolved")),
        ("soon", (None, "")),
        ("", (None, "")),
        ("???", (None, "")),
    ],
)
def test_words_for_a_status(said, meant):
    """LOG-10: words of other tools are understood; a terminal status is closed with that disposition."""
    assert status_in(said) == meant


def test_what_is_not_understood_is_named_with_its_line():
    text = PLAIN.replace("Status: unread", "Status: perhaps\nStatus: closed")
    said = [(remark.line, remark.sentence) for remark in parse(text.encode()).remarks]
    assert said == [
        (5, "MSG-20260101-001 has the status `perhaps`, which nobody knows."),
        (8, "MSG-20260101-001 has a second field `status`; the first one counts."),
    ]
    (message,) = messages(text).values()
    assert message.status == "new", "it is open as long as nobody knows better"


def test_a_fence_that_nobody_closed_hides_no_mail():
    broken = BOLD.replace("Work is complete.", "Work is complete.\n\n```diff\nnever closed")
    mailbox = parse(broken.encode())
    assert {"MSG-20260211-003", "MSG-20260211-002"} <= {message.id for message in mailbox.messages}
    assert mailbox.section("closed") is not None
    assert any("never closed" in remark.sentence for remark in mailbox.remarks)
    comment = TABLES.replace("Summary:\n- one point", "Summary:\n\n<!-- never closed")
    assert len(parse(comment.encode()).messages) == 2


def test_a_fence_hides_what_it_quotes_and_a_longer_one_what_has_fences():
    quoted = "````\n```text\n### MSG-20260301-009\n\nFrom: A -> B\nStatus: new\n```\n## Closed Summary\n````\n"
    assert len(parse(TABLES.replace("- one point\n", quoted).encode()).messages) == 2


def test_windows_line_ends_and_a_byte_order_mark():
    for text in FORMS.values():
        plain = parse(text.encode())
        other = parse(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
        assert [card.message for card in other.cards] == [card.message for card in plain.cards]
        assert [section.name for section in other.sections] == [section.name for section in plain.sections]


def test_names_fold_and_what_goes_to_all_goes_to_all_but_its_sender():
    """LOG-10"""
    message = Message(id="MSG-20260301-001", sender="Bob", recipients=("ALL",))
    assert is_for(message, "alice")
    assert not is_for(message, "BOB")
    two = Message(id="x", sender="Maintainer (relayed by Claude)", recipients=("codex", "Claude"))
    assert is_for(two, "Codex")
    assert is_for(two, "claude")
    assert not is_for(two, "Maintainer")


def test_to_several_is_unread_for_those_who_have_not_answered():
    """LOG-10: whoever reads first does not take the message from the others."""
    ack = Ack(actor="bob", date="2026-03-01", text="acknowledged: yes")
    message = Message(id="x", sender="Alice", recipients=("Bob", "Carol"), acks=(ack,))
    assert [name for name in NAMES if is_unread(message, name)] == ["Carol"]


def test_the_order_is_that_of_days_and_numbers():
    ids = ["MSG-20260301-1000", "MSG-20260301-999", "MSG-bob-20260301-0002", "MSG-20260228-1001"]
    assert sorted(ids, key=lambda one: order(Message(id=one)), reverse=True) == ids


@pytest.mark.parametrize(
    "data", [b"", b"\n \n", b"\0" * 50, b"# Shopping\n\n- milk\n", b"PK\x03\x04" + bytes(range(256))]
)
def test_what_is_no_mailbox_is_damaged_and_not_empty(data):
    """LOG-11: a damaged mailbox never looks like one without mail."""
    assert parse(data).damage
    assert parse(data).messages == []


def test_a_section_that_is_there_twice_is_damage():
    twice = TABLES + "\n## Open Queue\n"
    assert (
        parse(twice.encode()).damage == "has the section `## Open Queue (Newest First)` twice, in lines 10 and 67"
    )


PIECES = st.sampled_from(
    [
        *(
            "### MSG-20260301-001",
            "### MSG-",
            "## Inbox Snapshot",
            "## Open Queue",
            "## Active Messages",
            "## Closed",
        ),
        *(
            "```",
            "````",
            "~~~",
            "```diff",
            "<!--",
            "-->",
            "---",
            "| Field | Value |",
            "|---|---|",
            "| Status | new |",
        ),
        *(
            "**From:** A -> B",
            "**Status:** unread",
            "From: A",
            "To: B",
            "Subject: s",
            "Status: new",
            "Message ID: x",
        ),
        *(
            "**Ack:** A — 2026-01-01 — ok",
            "Ack:",
            "- A — 2026-01-01 — ok",
            "Reply:",
            "> quoted",
            "",
            " ",
            "\t",
            "text",
        ),
        *("| a \\| b | c |", "|", "||", "\\", "\r", "\x85\u2028", "\ufeff", "# x", "#### y", "* * *", "x" * 50),
    ]
)
ANY = st.one_of(
    st.binary(max_size=300),
    st.lists(PIECES, max_size=40).map(lambda lines: "\n".join(lines).encode()),
    st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=40).map(
        lambda lines: "\r\n".join(lines).encode("utf-8", "replace")
    ),
)


@given(ANY)
@example(b"### MSG-1")
@example(b"---\nMessage ID:")
def test_any_bytes_are_read_and_every_byte_has_its_place(data):
    """LOG-10: no text is too strange, and the parts of a file are the file."""
    mailbox = parse(data)
    at = 0
    for part in mailbox.parts:
        assert part.start == at < part.end
        at = part.end
    assert at == len(data)
    assert isinstance(mailbox.damage, str)
    assert [remark.line for remark in mailbox.remarks] == sorted(remark.line for remark in mailbox.remarks)
    for name, unread in unread_by(mailbox.messages, NAMES).items():
        assert unread == [message for message in mailbox.messages if is_unread(message, name)]


@pytest.mark.parametrize(
    "pump",
    [
        *(
            "`",
            "```\n",
            "~~~ x\n```\n",
            "````\n```\n",
            "<!--\n",
            "-->\n<!-- ",
            "---\n",
            "| a ",
            "\\|",
            "|\n",
            " ",
            "\n",
            "> ",
        ),
        *("### MSG-20260101-001\n", "### MSG-1\n\n| a | b |\n", "---\nFrom: a\nTo: b\nSubject: c\nStatus: new\n"),
        *(
            "**Ack:** A — 2026-01-01 — x\n",
            "- a — ",
            "x\n",
            "- x\n",
            "From: a -> ",
            " and ",
            "**a:** b\n",
            "## Open Queue\n",
        ),
    ],
)
@pytest.mark.parametrize(
    "head", ["", "## Active Messages\n\n### MSG-20260101-001\nStatus: new\n\nReply:\n", "Ack:\n"]
)
def test_what_strangers_write_is_read_in_proportion_to_its_length(head, pump):
    """What takes longer runs into the time limit."""
    mailbox = parse((head + pump * (200_000 // len(pump))).encode())
    assert mailbox.parts
    assert isinstance(mailbox.damage, str)
