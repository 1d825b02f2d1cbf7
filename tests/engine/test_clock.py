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


def test_it_moves_on_by_itself():
    clock = Clock()
    first = clock.now()
    assert clock.now() >= first
