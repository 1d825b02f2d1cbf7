"""Success criteria against the checklist of a summary: tolerant of how it is written, strict about what it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.plans.criteria import shown


def met(criterion, summary):
    (one,) = shown([criterion], summary)
    return one.met


@pytest.mark.parametrize(
    "line",
    [
        "- [x] At least five sources",
        "* [X] at LEAST five   sources.",
        "1. [x] **At least five sources**",
        "  - [x] _At least_ `five` sources!",
        "> - [x] At least five sources",
        "- [x] At least five sources: seven, see facts.md",
        "- [x] At least five sources — seven",
        "- [x] At least five sources (seven)",
    ],
)
def test_a_criterion_is_met_however_it_is_written(line):
    """TBX-15: every success criterion `- [ ]/[x]` found."""
    assert met("At least five sources.", f"# Summary\n\n{line}\n") is True
    assert (
        met("At least five sources.", f"# Summary\n\n{line.replace('[x]', '[ ]').replace('[X]', '[ ]')}\n") is False
    )


@pytest.mark.parametrize(
    "summary",
    [
        "",
        "At least five sources",
        "- At least five sources",
        "- [x] At least five sources were not found",
        "- [x] At least",
        "- [y] At least five sources",
        "```\n- [x] At least five sources\n```\n",
        "~~~~\n- [x] At least five sources\n~~~\n- [x] At least five sources",
    ],
)
def test_what_a_summary_does_not_say_is_not_shown(summary):
    assert met("At least five sources", summary) is None


@pytest.mark.parametrize("marks", ["x ", " x"])
def test_a_summary_that_says_both_does_not_meet_it(marks):
    assert met("It works", "\n".join(f"- [{mark}] It works" for mark in marks)) is False


def test_the_longest_criterion_is_the_one_that_is_meant():
    both = shown(["It works", "It works: on Mondays"], "- [x] It works: on Mondays (tried)\n- [ ] it works\n")
    assert [one.met for one in both] == [False, True]


@given(st.lists(st.text(), max_size=5), st.text(alphabet=st.sampled_from("-*[]xX \n`~>.1aÄß\u2028\x00")))
def test_any_summary_has_an_answer_for_every_criterion(criteria, summary):
    assert [one.text for one in shown(criteria, summary)] == criteria


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z]{1,8}( [a-z]{1,8}){0,3}", fullmatch=True), st.booleans()), max_size=6)
)
def test_a_checklist_of_the_criteria_themselves_is_read_as_it_is(listed):
    wanted = dict(listed)
    summary = "\n".join(f"- [{'x' if done else ' '}] {text}" for text, done in wanted.items())
    assert {one.text: one.met for one in shown(list(wanted), summary)} == wanted
