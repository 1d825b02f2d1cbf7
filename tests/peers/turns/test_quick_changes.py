"""A file that changes within the second of a snapshot, to a text of the same length, is seen to have changed."""

from __future__ import annotations

import time

from sortie.peers.turns.changes import changes_between
from sortie.peers.turns.snapshot import take_after, take_before
from tests.e2e.processes import wait_for

from .repository import Repository


def test_a_change_in_the_same_second_is_seen_by_a_later_look(tmp_path):
    """LOG-05: by its content; size and times of whole seconds are those of before."""
    repository = Repository(tmp_path / "repo")
    repository.write("other.txt", "x\n")
    repository.commit("first")
    for number in range(1, 20):
        wait_for(lambda: time.time() % 1 < 0.1)
        second = int(time.time())
        repository.write("a.txt", "version = 1\n")
        before = take_before(repository.place, number)
        repository.write("a.txt", "version = 2\n")
        if int((repository.root / "a.txt").stat().st_mtime) == second:
            break
    else:
        raise AssertionError("this machine is too slow for the test")
    wait_for(lambda: time.time() > second + 1.1)
    changes = changes_between(before, take_after(repository.place, before))
    assert [file.path for file in changes.files] == ["a.txt"]
