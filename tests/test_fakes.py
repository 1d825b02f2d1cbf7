"""The fakes of `sortie.testing` that no contract describes."""

from __future__ import annotations

from sortie.testing import ManualClock


def test_a_clock_that_stands_still_until_it_is_moved():
    clock = ManualClock(1_000_000.0)
    assert clock.now() == clock.now() == 1_000_000.0
    clock.advance(2.5)
    assert clock.now() == clock.on_calendar(clock.now()) == 1_000_002.5


def test_setting_the_calendar_moves_no_deadline():
    clock = ManualClock(1_000_000.0)
    clock.set_ahead(86_400)
    assert clock.now() == 1_000_000.0
    assert clock.on_calendar(clock.now()) == 1_086_400.0
    assert clock.day(clock.now()) == "1970-01-13"
