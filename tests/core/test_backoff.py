"""How long the next try waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.core.conclude import backoff

from .laws import nominal


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (60, 300)],
)
def test_back_off_doubles_from_ten_seconds_to_the_cap(failures, seconds):
    assert 0.8 * seconds <= backoff(failures, 300.0, "issue") <= seconds


@given(failures=st.integers(0, 10_000), cap=st.floats(0, 1e6), key=st.text())
def test_back_off_stays_between_four_fifths_of_nominal_and_nominal(failures, cap, key):
    longest = nominal(min(max(failures, 1), 31), cap)
    assert 0.8 * longest <= backoff(failures, cap, key) <= longest


@given(failures=st.integers(1, 200), cap=st.floats(1, 1e6), key=st.text())
def test_back_off_is_the_same_whenever_it_is_asked(failures, cap, key):
    assert backoff(failures, cap, key) == backoff(failures, cap, key)


def test_issues_that_failed_together_are_spread_out():
    waits = {backoff(1, 300.0, str(number)) for number in range(100)}
    assert len(waits) == 100
    assert max(waits) - min(waits) > 1.0
