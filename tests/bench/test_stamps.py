"""The agent of the measurements says truly when it ran, and whether it ran beside itself."""

from __future__ import annotations

import subprocess
import time

import pytest
from bench.floor import spawned

from bench import stamps


@pytest.fixture(params=["compiled", "script"])
def program(request, tmp_path):
    built = stamps.Program(tmp_path, stamps.COMPILERS if request.param == "compiled" else ())
    if request.param == "compiled" and "agent.c" not in built.described:
        pytest.skip("no C compiler works here")
    return built


def hold(program, folder, issue):
    environment = {"SORTIE_WORKFLOW_DIR": folder, "SORTIE_WORKSPACE": folder, "SORTIE_ISSUE_IDENTIFIER": issue}
    return subprocess.Popen([program.hold], env=environment | {"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL)


def until_stamped(folder, count):
    give_up = time.monotonic() + 30
    while stamps.Stamps(folder).count() < count:
        assert time.monotonic() < give_up
    return [stamp.what for stamp in stamps.Stamps(folder)]


def test_each_agent_stamps_its_start_and_its_end_and_signals(program, tmp_path):
    before = time.monotonic()
    spawned(program.done, tmp_path / "floor", 20, 5)
    made = list(stamps.Stamps(tmp_path / "floor"))
    assert sorted(stamp.what for stamp in made) == ["E"] * 20 + ["S"] * 20
    assert all(before - 0.02 <= stamp.at <= time.monotonic() for stamp in made)
    assert (tmp_path / "floor/7/.sortie/status").read_text() == "needs-human-review\n"


def test_a_second_agent_of_the_same_issue_is_told_from_a_next_one(program, tmp_path):
    with hold(program, tmp_path, "B-1") as first:
        assert until_stamped(tmp_path, 1) == ["S"]
        with hold(program, tmp_path, "B-1") as second, hold(program, tmp_path, "B-2") as other:
            assert sorted(until_stamped(tmp_path, 3)) == ["S", "S", "X"]
            second.kill()
            other.kill()
        first.kill()
    with hold(program, tmp_path, "B-1") as next_one:
        assert sorted(until_stamped(tmp_path, 4)) == ["S", "S", "S", "X"]
        next_one.kill()
