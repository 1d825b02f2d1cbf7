"""What is wrong with a mailbox is named with its line; what is right is left alone."""

from __future__ import annotations

import pytest

from sortie.peers.mailbox.lint import lint
from sortie.peers.mailbox.parse import parse

from .samples import BOLD, NOW, PLAIN, ROSTER, RULES, TABLES, add, empty


def found(text: str | bytes) -> list[tuple[str, str]]:
    data = text.encode() if isinstance(text, str) else text
    return [(one.kind, one.sentence) for one in lint(parse(data), roster=ROSTER, now=NOW)]


def kinds(text: str | bytes) -> set[str]:
    return {kind for kind, _ in found(text)}


def test_what_we_write_is_right():
    """LOG-10"""
    data = empty()
    assert found(data) == []
    for priority in ("P0", "P1", "P2"):
        data, _ = add(data, "Bob+Carol", priority=priority, body="### x\n```")
        assert found(data) == []


@pytest.mark.parametrize(
    ("before", "after", "kind", "said"),
    [
        ("| Bob | 1 |", "| Bob | 3 |", "snapshot", "The snapshot of Bob is wrong: unread 3 instead of 1."),
        (
            "| Bob | 1 | MSG-20261118-001",
            "| Bob | 1 | none",
            "snapshot",
            "oldest unread none instead of MSG-20261118-001",
        ),
        (
            "| MSG-20261118-001 | Alice -> Bob | P2 | Hello |\n",
            "",
            "card-without-row",
            "is open and not in the queue",
        ),
        (
            "| MSG-20261118-001 | Alice",
            "| MSG-20261118-009 | Alice",
            "row-without-card",
            "MSG-20261118-009, which has no card",
        ),
        ("| To | Bob |", "| To | Dave |", "unknown-name", "names Dave, whom no document knows"),
        ("| From | Alice |", "| From |  |", "unknown-name", "names nobody, whom no document knows"),
        ("| Type | request |", "| Type | shout |", "unknown-type", "is of the type `shout`, which nobody knows"),
        (
            "| Closure owner | sender |",
            "| Closure owner | none |",
            "no-closure-owner",
            "does not say who closes it",
        ),
        ("| Status | new |", "| Status | blocked |", "blocked-without-dependency", "no answer says by what"),
        (
            "| Status | new |",
            "| Status | someday |",
            "not-understood",
            "has the status `someday`, which nobody knows",
        ),
        ("2026-11-18T11:06:40Z", "2027-11-18T11:06:40Z", "date-in-future", "is dated 2027-11-18T11:06:40Z"),
        ("| Status | new |", "| Status | closed |", "closed-row", "is closed and not in the closed summary"),
        ("## Open Queue", "## Something Else", "no-section", "There is no section `## Open Queue (Newest First)`"),
        ("> text", "```\ntext", "not-understood", "is never closed"),
    ],
)
def test_each_mistake_is_named(before, after, kind, said):
    """LOG-10"""
    data, _ = add(empty(), body="text")
    text = data.decode()
    assert before in text
    sentences = [sentence for one, sentence in found(text.replace(before, after, 1)) if one == kind]
    assert any(said in sentence for sentence in sentences), found(text.replace(before, after, 1))


def test_damage_is_one_sentence():
    """LOG-11"""
    assert found(b"\0") == [("damaged", "It is no text: it has NUL bytes.")]


def test_a_closed_summary_with_bad_rows():
    rows = "| MSG-1 | 2026 | A -> B | resolved | x |\n" * 2 + "| MSG-2 | | A -> B | resolved | x |\n"
    said = [sentence for kind, sentence in found(empty().decode() + rows) if kind == "closed-row"]
    assert said == [
        "The closed summary has MSG-1 2 times.",
        "The row of MSG-2 in the closed summary is not complete.",
    ]


def test_order_and_many_closed_cards_are_advice():
    first, _ = add(empty(), at=NOW - 86_400 * 3)
    text = first.decode()
    card = text[text.index("### MSG") : text.index("## Closed")]
    later = card.replace("20261115", "20261117")
    assert "not-newest-first" in kinds(text.replace(card, card + later))
    many = "".join(
        card.replace("20261115-001", f"20261115-{n:03}").replace("| new |", "| closed |") for n in range(60, 0, -1)
    )
    assert "archive" in kinds(text.replace(card, many))


def test_files_of_people_are_read_without_a_crash():
    for text in (TABLES, BOLD, PLAIN, RULES):
        assert all(sentence.endswith(".") for _, sentence in found(text))
