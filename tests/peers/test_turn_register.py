"""The register of turns: counted up, never two at once, and read whatever stands in it."""

from __future__ import annotations

import os
import subprocess
import sys
from uuid import uuid4

import pytest

from sortie.errors import SortieError
from sortie.peers.place import place_at
from sortie.peers.turn_register import NAME, TurnRegister
from sortie.process.identity import RUN_MARK

BEGIN = """
import os, sys
from pathlib import Path
from sortie.errors import SortieError
from sortie.peers.place import place_at
from sortie.peers.turn_register import TurnRegister
sys.stdin.readline()
try:
    turn = TurnRegister(place_at(Path(sys.argv[1]))).begin(agent=sys.argv[2], kind="implement", began=1.0)
except SortieError as error:
    print("refused", flush=True)
else:
    print(turn.number, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def register(tmp_path):
    return TurnRegister(place_at(tmp_path))


def path_of(tmp_path):
    return tmp_path / ".sortie" / NAME


def beginner(tmp_path, agent: str) -> subprocess.Popen[str]:
    """A process that begins a turn when it gets a line, and keeps it until it gets another."""
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN, str(tmp_path), agent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def begin_in(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("begin\n")


def answer_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_turns_are_counted_and_found(register):
    assert register.turns() == []
    assert register.open_turn() is None
    first = register.begin(
        agent="Alice", kind="implement", task="T1", began=1.0, run_id="r1", before="b", cursor="c"
    )
    assert (first.number, first.task, first.before, first.cursor, first.outcome) == (1, "T1", "b", "c", "")
    assert register.open_turn() == first
    register.amend(1, after="abc")
    ended = register.end(1, "succeeded", 2.0)
    assert (ended.after, ended.outcome, ended.ended) == ("abc", "succeeded", 2.0)
    assert register.open_turn() is None
    assert register.begin(agent="Bob", kind="review", began=3.0, run_id="r2").number == 2
    assert [(turn.number, turn.run_id) for turn in register.turns()] == [(1, "r1"), (2, "r2")]
    assert register.turns()[0] == ended
    with pytest.raises(SortieError, match="no turn 7"):
        register.amend(7, after="x")


def test_turns_of_an_agent_are_those_that_it_has_ended(register):
    """What deadlines that are counted in turns go by."""
    for began in (1.0, 3.0):
        turn = register.begin(agent="Alice", kind="implement", began=began)
        register.end(turn.number, "failed", began + 1)
    register.begin(agent="Alice", kind="implement", began=5.0)
    assert [register.turns_of("ALICE", since) for since in (0, 1.0, 1.5, 3.0, 3.5)] == [2, 2, 1, 1, 0]
    assert register.turns_of("Bob", 0) == 0


def test_of_many_that_begin_at_once_one_has_the_turn(tmp_path):
    """Two turns in one checkout do not overlap."""
    processes = [beginner(tmp_path, f"agent-{number}") for number in range(6)]
    for process in processes:
        begin_in(process)
    answers = [answer_of(process) for process in processes]
    assert sorted(answers) == ["1\n", *["refused\n"] * 5]
    with pytest.raises(SortieError, match=r"Turn 1, of agent-\d, goes on in .*; two never overlap\. Wait until"):
        TurnRegister(place_at(tmp_path)).begin(agent="Bob", kind="implement", began=2.0)
    for process in processes:
        process.communicate()


def test_a_turn_whose_process_died_is_told_as_interrupted(tmp_path, register):
    with beginner(tmp_path, "Alice") as process:
        begin_in(process)
        assert answer_of(process) == "1\n"
        process.kill()
    assert register.open_turn().agent == "Alice"
    assert register.begin(agent="Bob", kind="implement", began=9.0).number == 2
    first, second = register.turns()
    assert (first.outcome, first.ended) == ("interrupted", 9.0)
    assert second.is_open


def test_a_turn_of_which_a_process_lives_on_is_alive(tmp_path, register):
    """Its orchestrator was killed, and its agent works on."""
    run_id = uuid4().hex  # no other test on this machine has a run of that name
    program = BEGIN.replace("began=1.0", f"began=1.0, run_id='{run_id}'")
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), "Alice"], stdin=-1, stdout=-1, text=True
    )
    agent = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_MARK: run_id})
    try:
        assert process.communicate("begin\n\n")[0] == "1\n"
        with pytest.raises(SortieError, match="Turn 1, of Alice"):
            register.begin(agent="Bob", kind="implement", began=2.0)
    finally:
        agent.kill()
        agent.wait()
    assert register.begin(agent="Bob", kind="implement", began=2.0).number == 2


@pytest.mark.parametrize("noise", [b"garbage\n", b"{}\n", b"\xff\n", b"[" * 50_000 + b"\n", b'{"number":1', b"\n"])
def test_what_is_no_turn_is_skipped_with_a_remark(tmp_path, register, noise):
    register.begin(agent="Alice", kind="implement", began=1.0)
    register.end(1, "succeeded", 2.0)
    with path_of(tmp_path).open("ab") as file:
        file.write(noise)
    assert [turn.outcome for turn in register.turns()] == ["succeeded"]
    assert register.remarks() == [f"Line 3 of {path_of(tmp_path)} is no turn and is skipped."]
    assert register.begin(agent="Bob", kind="implement", began=3.0).number == 2
    assert [turn.agent for turn in register.turns()] == ["Alice", "Bob"]


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("/dev/zero"), os.mkfifo, os.mkdir])
def test_a_register_that_is_no_file_is_an_error_that_says_so(tmp_path, register, make):
    path_of(tmp_path).parent.mkdir()
    make(path_of(tmp_path))
    for act in (register.turns, register.open_turn, lambda: register.begin(agent="A", kind="k", began=1.0)):
        with pytest.raises(SortieError, match="not a regular file"):
            act()
