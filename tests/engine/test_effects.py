"""Writes to the source: what fails for a moment is tried again before anything follows from it."""

from __future__ import annotations

import time

import anyio
import pytest

from sortie import Issue, Orchestrator, TrackerError
from sortie.core import events as ev
from sortie.core.conclude import Outcome
from sortie.core.policy import Policy
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


class Told(ListSource):
    """Writes down what it is asked, in this order."""

    def __init__(self, directory, *, spent: bool = False) -> None:
        policy = Policy(active_states=("todo", "doing"), terminal_states=("done", "failed"))
        super().__init__([Issue(id="a", identifier="a", title="Task a", state="todo")], directory, policy=policy)
        self.asked: list[str] = []
        self.spent = spent

    def progress_state(self, issue: Issue) -> str:
        return "doing"

    async def fetch(self, issue_id: str) -> Issue:
        self.asked.append("issue")
        return await super().fetch(issue_id)

    async def fetch_states(self, issue_ids):
        self.asked.append("state")
        if self.spent:
            raise TrackerError(TrackerError.RATE_LIMITED, "what looks may use is used up", until=time.time() + 60)
        return await super().fetch_states(issue_ids)

    async def transition(self, issue_id: str, state: str) -> None:
        self.asked.append(f"to {state}")
        await super().transition(issue_id, state)


async def run_of(source: ListSource, directory) -> EventCollector:
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(silent)], directory / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            await heard.wait(ev.Settled, "a")
            orchestrator.drain()
    return heard


def before_moves(asked: list[str]) -> dict[str, str]:
    return {asked[n]: asked[n - 1] for n in range(1, len(asked)) if asked[n].startswith("to ")}


async def test_before_a_move_only_the_state_is_asked_for(tmp_path):
    """An issue may have thousands of comments, and a move has to be made in time."""
    source = Told(tmp_path / "work")
    await run_of(source, tmp_path)
    assert len(before_moves(source.asked)) == 2
    assert set(before_moves(source.asked).values()) == {"state"}


async def test_where_looks_have_used_up_their_calls_a_run_moves_its_issue_all_the_same(tmp_path):
    source = Told(tmp_path / "work", spent=True)
    heard = await run_of(source, tmp_path)
    assert set(before_moves(source.asked).values()) == {"issue"}
    assert [done.ok for done in heard.all(ev.EffectDone)] == [True]
    assert heard.all(ev.Settled)[-1].park is None


async def test_an_issue_that_is_gone_is_not_moved(tmp_path):
    class Gone(Told):
        async def fetch_states(self, issue_ids):
            return {}

    source = Gone(tmp_path / "work")
    heard = await run_of(source, tmp_path)
    assert before_moves(source.asked) == {}
    assert [done.ok for done in heard.all(ev.EffectDone)] == [False]
