"""The digest changes with what people change, and only with that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sortie.core.model import Blocker, Comment, Issue
from sortie.core.observe import fingerprint, mark, mark_of

ISSUE = Issue(
    id="1",
    identifier="D-1",
    title="Mend it",
    state="Todo",
    description="It is broken.",
    labels=("a", "b"),
    assignee="ada",
    comments=(Comment("c1", "ada", "please"),),
)
EFFECT_IDS = st.from_regex(r"[0-9a-f]{1,11}-[0-9a-f]{8}\.(dispatch|handoff|completion|failure)", fullmatch=True)


def with_comment(body: str, author: str = "ada") -> Issue:
    return replace(ISSUE, comments=(*(ISSUE.comments or ()), Comment("c2", author, body)))


@pytest.mark.parametrize(
    "change",
    [
        {"state": "In Progress"},
        {"title": "Mend that"},
        {"description": "It is broken!"},
        {"labels": ("a",)},
        {"labels": ("a", "b", "c")},
        {"labels": ("ab",)},
        {"assignee": "grace"},
        {"comments": ()},
        {"comments": (Comment("c1", "ada", "please!"),)},
        {"comments": (Comment("c1", "grace", "please"),)},
        {"comments": (Comment("c9", "ada", "please"),)},
    ],
)
def test_what_people_change_counts(change: dict[str, Any]):
    """A2O-09: a person changed the state or added information."""
    assert fingerprint(replace(ISSUE, **change)) != fingerprint(ISSUE)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "TODO"},
        {"labels": ("b", "a")},
        {"updated_at": "2026-03-30T12:00:00Z"},
        {"url": "https://example.com/1"},
        {"priority": 1},
        {"blocked_by": (Blocker("2", "D-2", "Todo"),)},
    ],
)
def test_what_is_not_a_word_of_people_does_not_count(change: dict[str, Any]):
    assert fingerprint(replace(ISSUE, **change)) == fingerprint(ISSUE)


@given(body=st.text(), effect_id=EFFECT_IDS, author=st.text())
def test_our_own_comments_never_count(body, effect_id, author):
    """A2O-09: what we write ourselves must not free a parked issue."""
    ours = mark(body, effect_id)
    assert mark_of(ours) == effect_id
    assert fingerprint(with_comment(ours, author)) == fingerprint(ISSUE)


@given(answer=st.text(min_size=1).filter(str.strip), effect_id=EFFECT_IDS)
def test_an_answer_below_a_quotation_of_ours_counts(answer, effect_id):
    quotation = mark("The agent signalled `blocked`.", effect_id)
    body = f"{quotation}\n{answer}"
    if mark_of(answer) is None:
        assert mark_of(body) is None
        assert fingerprint(with_comment(body)) != fingerprint(ISSUE)


def test_a_quotation_alone_in_quote_marks_counts():
    quotation = "\n".join(f"> {line}" for line in mark("Blocked.", "r1.completion").splitlines())
    assert mark_of(quotation) is None
    assert fingerprint(with_comment(quotation)) != fingerprint(ISSUE)


@pytest.mark.parametrize(
    "body", ["", "\n\n", "<!-- sortie: -->", "<!-- sortie:r1 --> thanks", "<!-- sortie:a b -->"]
)
def test_what_is_not_exactly_our_mark_is_not_ours(body):
    assert mark_of(body) is None


def test_the_mark_survives_line_ends_and_spaces_that_trackers_add():
    assert mark_of(mark("Started.", "r1.dispatch").replace("\n", "\r\n") + " \r\n") == "r1.dispatch"


@given(st.lists(st.text(max_size=3), min_size=2, max_size=6))
def test_text_that_moves_from_one_field_to_the_next_counts(parts):
    one = replace(ISSUE, title=parts[0], description="".join(parts[1:]))
    other = replace(ISSUE, title="".join(parts[:-1]), description=parts[-1])
    same = (one.title, one.description) == (other.title, other.description)
    assert (fingerprint(one) == fingerprint(other)) == same


def test_text_that_is_not_valid_unicode_has_a_fingerprint():
    assert fingerprint(replace(ISSUE, title="\ud800")) != fingerprint(ISSUE)


DIGEST_OF_EARLIER_VERSIONS = "726c19049704a5c57c8d2af091024168"


def test_the_digest_stays_what_stores_have_kept():
    assert fingerprint(ISSUE) == DIGEST_OF_EARLIER_VERSIONS
    judged = replace(ISSUE, trusted=True, comments=(Comment("c1", "ada", "please", trusted=True),))
    assert fingerprint(judged) == DIGEST_OF_EARLIER_VERSIONS


def test_somebody_who_takes_another_name_wakes_nothing():
    """Where a tracker has names that stay, a person who marries must not free every issue that they wrote to."""
    before, after = (
        replace(ISSUE, comments=(Comment("c1", name, "please", author_id="5b10", trusted=True),))
        for name in ("Ada Byron", "Ada Lovelace")
    )
    assert fingerprint(before) == fingerprint(after)
    other = replace(ISSUE, comments=(Comment("c1", "Ada Byron", "please", author_id="77", trusted=True),))
    assert fingerprint(before) != fingerprint(other)


strangers = st.builds(
    Comment, st.text(max_size=3), st.text(max_size=3), st.text(max_size=9), trusted=st.just(False)
)


@given(st.lists(strangers, max_size=3), st.integers(0, 1), st.text(), st.text())
def test_nothing_that_strangers_write_counts(comments, place, title, description):
    """A2O-09: a stranger cannot wake a parked issue, neither by comments nor by editing an issue of their own."""
    heard = ISSUE.comments or ()
    told = (*heard[:place], *comments, *heard[place:])
    assert fingerprint(replace(ISSUE, comments=told)) == fingerprint(ISSUE)
    theirs = replace(ISSUE, trusted=False)
    edited = replace(theirs, title=title, description=description, comments=told)
    assert fingerprint(edited) == fingerprint(theirs)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "Done"},
        {"labels": ()},
        {"assignee": "bob"},
        {"comments": (Comment("c2", "ada", "yes", trusted=True),)},
    ],
)
def test_what_people_of_the_project_change_about_a_strangers_issue_counts(change: dict[str, Any]):
    theirs = replace(ISSUE, trusted=False)
    assert fingerprint(replace(theirs, **change)) != fingerprint(theirs)
