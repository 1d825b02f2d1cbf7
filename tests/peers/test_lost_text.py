"""What counts as still being in a document, and what as lost."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.peers.journal import Line, Record
from sortie.peers.lost_text import missing, normal, occurrences


def lines_for(*texts: str) -> list[tuple[int, Line]]:
    return [
        (number, Line(op="append", record=Record(at=1.0, author="A", role="agent", text=text)))
        for number, text in enumerate(texts)
    ]


def lost(document: bytes, *texts: str) -> list[str]:
    return [one.record.text for one in missing(lines_for(*texts), document)]


@pytest.mark.parametrize(
    "document",
    [
        b"### one\n\ntext\n",
        b"before\n### one\n\ntext\nafter\n",
        b"### one\r\n\r\ntext\r\n",
        b"### one  \n\t\ntext \n",
        b"### one\n\ntext",
        b"### one\n\ntext\n\n\n### two\n",
    ],
)
def test_what_editors_change_by_themselves_is_no_difference(document):
    assert lost(document, "\n### one\n\ntext\n\n") == []


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"### one\n\n",
        b"### one\n\ntext more\n",
        b"x ### one\n\ntext\n",
        b"### one\ntext\n",
        b"text\n\n### one\n",
    ],
)
def test_a_text_that_is_not_there_as_it_was_written_is_lost(document):
    assert lost(document, "### one\n\ntext\n") == ["### one\n\ntext\n"]


def test_every_text_counts_as_often_as_it_was_written():
    assert lost(b"same\nsame\n", "same\n", "same\n", "same\n") == ["same\n"]
    assert lost(b"same\nsame\nsame\nsame\n", "same\n", "same\n") == []


def test_a_text_that_another_one_begins_with_is_told_apart():
    short, long = "### one\n\ntext\n", "### one\n\ntext\nmore\n"
    assert lost(long.encode(), short, long) == [short]
    assert lost((long + short).encode(), short, long) == []
    assert lost(short.encode(), short, long) == [long]


def test_what_was_written_again_is_looked_for_once():
    (_, first), (_, second) = lines_for("one\n", "one\n")
    again = Line(op="append", record=second.record, of=(0,))
    assert missing([(0, first), (1, again)], b"one\n") == []
    assert [one.position for one in missing([(0, first), (1, again)], b"")] == [1]
    told = missing([(0, first), (1, Line(op="told", of=(0,)))], b"")
    assert [(one.position, one.is_told) for one in told] == [(0, True)]


TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "a\nb\n", "a\n\nb\n", "c\na\n", " a\n", "\n", "b"]), max_size=6)


@given(TEXTS, st.sampled_from(["\n", "\r\n"]))
def test_whatever_is_appended_is_found(texts, end):
    """LOG-06: a document that has all of it, in whatever line endings, has lost nothing."""
    # A rule between them: the lines of two that follow each other could be taken for those of a third.
    document = "---\n".join(text if text.endswith("\n") else text + "\n" for text in texts)
    assert lost(document.replace("\n", end).encode(), *texts) == []


@given(st.binary(max_size=200), st.lists(st.binary(min_size=1, max_size=20), max_size=5))
def test_any_bytes_are_looked_through(document, texts):
    wanted = [text for text in map(normal, texts) if text]
    found = occurrences(wanted, document)
    assert all(found[text] <= count for text, count in Counter(wanted).items())


def test_many_texts_in_a_long_document_take_linear_time():
    """Ten thousand entries in a document that has none of them: a search for each would take minutes."""
    texts = [f"### 2026-11-18T02:00:00Z — Alice: entry {number}\n\n{'x' * 400}\n" for number in range(10_000)]
    document = "".join(text.replace("entry", "another") for text in texts).encode()
    assert len(lost(document, *texts)) == 10_000
    assert lost("".join(reversed(texts)).encode(), *texts) == []
