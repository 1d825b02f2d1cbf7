"""What strangers wrote is harmless on a terminal, and values are short."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sortie.cli.format import amount, clean, duration, seconds_of, short, stamp
from sortie.cli.printing import print_json


@given(st.text())
def test_cleaned_text_has_only_printable_characters(text):
    assert clean(text).isprintable()


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_ordinary_text_stays_as_it_is(text):
    assert clean(text) == text


@given(st.text(), st.integers(1, 50))
def test_short_text_is_never_longer_than_asked(text, width):
    assert len(short(text, width)) <= width


@given(st.text(st.sampled_from("ab 日本語한\u0301\ufe0f❤🎉🇩🇪👩\u200d")), st.integers(1, 20))
def test_short_text_never_takes_more_columns_than_asked(text, width):
    """Characters of two columns, of none, and those that join with others."""
    assert cell_len(short(text, width)) <= width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("one\ntwo\r\nthree\n", "one / two / three"),
        ("a\tb\u00a0c", "a b c"),
        ("abc\u202edef", r"abc\u202edef"),
        ("\udc80", r"\udc80"),
        ("\x9b31m", r"\x9b31m"),
    ],
)
def test_control_characters_are_spelled_out(text, shown):
    assert clean(text) == shown


@given(st.recursive(st.text(st.characters(codec="utf-8")), lambda inner: st.lists(inner, max_size=3)))
def test_json_is_the_same_value_without_control_characters(value):
    import io
    from contextlib import redirect_stdout

    printed = io.StringIO()
    with redirect_stdout(printed):
        print_json(value)
    assert json.loads(printed.getvalue()) == value
    assert all(line.isprintable() for line in printed.getvalue().split("\n"))


def test_durations_and_amounts_are_short():
    assert [duration(seconds) for seconds in (-1, 0.4, 59, 61, 3600, 90061)] == [
        "0s",
        "0s",
        "59s",
        "1m01s",
        "1h00m",
        "1d01h",
    ]
    assert [amount(number) for number in (0, 999, 1500, 2_340_000, 5e9)] == ["0", "999", "1.5k", "2.3M", "5.0G"]


@given(st.integers(0, 4_000_000_000))
def test_stamps_are_read_back(at):
    assert seconds_of(stamp(at)) == at
