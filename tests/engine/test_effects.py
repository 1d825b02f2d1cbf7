"""Writes to the source: what fails for a moment is tried again before anything follows from it."""

from __future__ import annotations

import time

import anyio
import pytest

from sortie import Issue, Orchestrator, TrackerError
from sortie.core import events as ev
from sortie.core.conclude import Outcome
from sortie.runs.messages import Ended, TurnAsked, TurnCompleted
from sortie.testing.fake_host import FakeHost
from sortie.testing.fakes import EventCollector
from sortie.testing.list_source import ListSource


async def silent(_):
    yield TurnAsked(turn=1)
    yield TurnCompleted(turn=1)
    yield Ended(outcome=Outcome(status="succeeded", turns=1))


def transport() -> TrackerError:
    return TrackerError(TrackerError.TRANSPORT, "the line is cut")


def limited() -> TrackerError:
    return TrackerError(TrackerError.RATE_LIMITED, "slow down", until=time.time() + 1.5)


def refused() -> TrackerError:
    return TrackerError(TrackerError.PAYLOAD, "there is no such state")


@pytest.mark.parametrize(("failure", "tries"), [(transport, 2), (limited, 2), (TimeoutError, 2), (refused, 1)])
async def test_a_write_that_fails_for_a_moment_is_tried_again_and_the_agent_is_not(tmp_path, failure, tries):
    class Shaky(ListSource):
        tried = 0

        async def transition(self, issue_id: str, state: str) -> None:
            self.tried += 1
            if self.tried == 1:
                raise failure()
            await super().transition(issue_id, state)

    source = Shaky([Issue(id="a", identifier="a", title="Task a", state="todo")], tmp_path / "work")
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(silent)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            settled = await heard.wait(ev.Settled, "a")
            orchestrator.drain()
    assert source.tried == tries
    assert (settled.park is None) == (tries == 2)
    assert [done.ok for done in heard.all(ev.EffectDone)] == [tries == 2]
    assert len(heard.all(ev.Claimed)) == 1
