"""The register of turns."""

from __future__ import annotations

import pytest

from sortie.errors import SortieError
from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister


@pytest.fixture
def register(tmp_path):
    return TurnRegister(place_at(tmp_path))


def test_turns_are_counted_and_found(register):
    first = register.begin(agent="Alice", kind="implement", began=1.0, run_id="r1")
    assert register.open_turn() == first
    register.amend(1, after="abc")
    ended = register.end(1, "succeeded", 2.0)
    assert (ended.after, ended.outcome, ended.ended) == ("abc", "succeeded", 2.0)
    assert register.open_turn() is None
    second = register.begin(agent="Bob", kind="review", began=3.0, run_id="r2")
    assert second.number == 2
    assert register.of_run("r1") == ended
    assert register.turns_of("alice", 1.0) == 1
    assert register.turns_of("alice", 1.5) == 0
    assert register.turns_of("bob", 0) == 0


def test_two_turns_do_not_overlap(register):
    register.begin(agent="Alice", kind="implement", began=1.0)
    with pytest.raises(SortieError, match="Turn 1, of Alice"):
        register.begin(agent="Bob", kind="implement", began=2.0)
