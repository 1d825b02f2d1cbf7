"""Chores on a host without processes, with a clock that the test moves."""

from __future__ import annotations

import anyio
import pytest
from chores import Chores

from sortie import Orchestrator
from sortie.core.conclude import Outcome
from sortie.core.events import Settled
from sortie.runs.messages import Ended, TurnAsked, TurnCompleted
from sortie.testing import FakeHost, ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def done(spec):
    yield TurnAsked(turn=1)
    yield TurnCompleted(turn=1)


async def blocked(spec):
    yield TurnAsked(turn=1)
    yield TurnCompleted(turn=1, signal="blocked")
    yield Ended(outcome=Outcome(status="succeeded", turns=1, soft_stop="blocked", reason="no broom"))


async def failed(spec):
    yield TurnAsked(turn=1)
    yield Ended(outcome=Outcome(status="failed", turns=0, error="no luck", error_kind="turn_failed"))


async def test_a_chore_is_done_once_and_the_next_start_leaves_it_alone(tmp_path):
    chores, host = Chores(tmp_path, {"tidy": ""}), FakeHost(done)
    for _ in range(2):
        await Orchestrator(chores, [host], tmp_path / "db").run(until_idle=True)
    assert len(host.specs) == 1
    assert chores.issues["tidy"].state == "done"


async def test_a_chore_that_is_blocked_waits_for_a_person(tmp_path):
    chores = Chores(tmp_path, {"tidy": ""})
    summary = await Orchestrator(chores, [FakeHost(blocked)], tmp_path / "db").run(until_idle=True)
    assert [(parked.identifier, parked.park.reason) for parked in summary.parked] == [("tidy", "no broom")]


async def test_a_chore_that_failed_is_tried_again_when_its_time_has_come(tmp_path):
    settled, clock = [], ManualClock()

    def listen(event):
        if isinstance(event, Settled):
            settled.append(event)
            clock.advance(3600)

    chores, host = Chores(tmp_path, {"tidy": ""}), FakeHost(failed)
    orchestrator = Orchestrator(chores, [host], tmp_path / "db", listeners=[listen], clock=clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orchestrator.run)
        while len(settled) < 3:
            await anyio.sleep(0.01)
        orchestrator.drain()
    assert len(host.specs) >= 3
