"""The run in which an agent proposes a plan: bounded in time, and over with everything that it started."""

from __future__ import annotations

import os

import anyio

from sortie.engine.proposing import MOST_LISTED, propose
from sortie.plans.plan import TaskAgent
from tests.e2e.processes import is_alive, wait_for


async def asked(tmp_path, script, **more):
    (tmp_path / "agent.sh").write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    (tmp_path / "agent.sh").chmod(0o755)
    told = []
    with anyio.fail_after(60):
        proposal = await propose(
            b"Tea.",
            tmp_path / "plan.yaml",
            [TaskAgent(kind="command", command="./agent.sh")],
            os.environ,
            on_round=lambda number, problems: told.append((number, len(problems))),
            **more,
        )
    return proposal, told


async def test_an_agent_that_does_not_come_to_an_end_is_ended(tmp_path):
    script = f"echo 'tasks: 7' > plan.yaml; sleep 1000 & echo $! > {tmp_path}/pid; wait"
    proposal, told = await asked(tmp_path, script, rounds=1, round_seconds=1.0)
    assert (proposal.plan, told) == (None, [])
    assert "took longer than" in proposal.failure
    assert proposal.content == b"tasks: 7\n"
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not is_alive(pid))


async def test_it_is_asked_no_more_often_than_it_may_be(tmp_path):
    proposal, told = await asked(tmp_path, "true", rounds=4)
    assert (proposal.plan, proposal.rounds, proposal.failure) == (None, 4, "")
    assert told == [(number, 1) for number in (1, 2, 3, 4)]


async def test_of_many_files_the_nearest_are_listed(tmp_path):
    home = tmp_path / "home"
    (home / "a" / "deep").mkdir(parents=True)
    for number in range(MOST_LISTED + 5):
        (home / "a" / "deep" / f"{number:05}").touch()
    (home / "z.md").touch()
    (home / "old.work").mkdir()
    (home / "old.work" / "left").touch()
    (home / "bad\nname").touch()
    await asked(home, f"cp files.txt {tmp_path}/listed", rounds=1)
    lines = (tmp_path / "listed").read_text().splitlines()
    assert lines[:2] == ["agent.sh", "z.md"]
    assert lines[-1] == "... and more"
    assert len(lines) < MOST_LISTED, "directories count too"
    assert not any("left" in line or "name" in line for line in lines)
