"""The scheduling clock starts at the wall clock's time and cannot be set."""

from __future__ import annotations

from sortie.engine.clock import Clock


def test_setting_the_wall_clock_changes_nothing_while_we_run():
    wall, steady = [1_000_000.0], [50.0]
    clock = Clock(wall=lambda: wall[0], steady=lambda: steady[0])
    assert clock.now() == 1_000_000.0
    wall[0] -= 86_400 * 365
    assert clock.now() == 1_000_000.0
    steady[0] += 2.5
    wall[0] += 86_400 * 3650
    assert clock.now() == 1_000_002.5


def test_the_calendar_follows_the_wall_clock_and_back_offs_do_not():
    """The day that pays and the times in logs are those that people read elsewhere."""
    wall, steady = [1_000_000.0], [50.0]
    clock = Clock(wall=lambda: wall[0], steady=lambda: steady[0])
    due = clock.now() + 30
    assert (clock.on_calendar(due), clock.day(due)) == (due, "1970-01-12")
    wall[0] += 86_400
    assert clock.now() == due - 30
    assert (clock.on_calendar(due), clock.day(due)) == (due + 86_400, "1970-01-13")
    wall[0] -= 2 * 86_400
    assert clock.day(clock.now()) == "1970-01-11"


def test_it_moves_on_by_itself():
    clock = Clock()
    first = clock.now()
    assert clock.now() >= first
