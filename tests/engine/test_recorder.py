"""Entries of the work log: in their order, once, and nobody waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import anyio

from sortie import Issue, Orchestrator, TrackerError
from sortie.core import events as ev
from sortie.core.conclude import Outcome, Settlement
from sortie.core.model import Limits, Park
from sortie.core.narrate import narrate
from sortie.core.policy import Policy
from sortie.core.records import Claim
from sortie.runs.messages import Ended, TurnAsked, TurnCompleted
from sortie.sources.source import Write
from sortie.store.connect import connect_readonly
from sortie.store.load import load
from sortie.testing.fake_host import FakeHost, one_turn
from sortie.testing.fakes import EventCollector
from sortie.testing.list_source import STATES, ListSource


def item(name: str) -> Issue:
    return Issue(id=name, identifier=name, title=f"Task {name}", state="todo")


class Logged(ListSource):
    """Keeps its log in memory; while `open` is not set, whoever writes waits."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.entries: list[str] = []
        self.tries = 0
        self.said = ""
        self.failures: list[Exception] = []
        self.open = anyio.Event()
        self.open.set()

    def writes_at_start(self, issue: Issue, claim: Claim) -> Sequence[Write]:
        return (Write(name="log-claimed", verb="record", argument=f"{issue.id} claimed"),)

    def writes_when_settled(
        self,
        issue: Issue,
        claim: Claim,
        outcome: Outcome,
        then: Settlement,
    ) -> Sequence[Write]:
        what = "parked" if then.park else "again" if then.retry else "over"
        return (
            Write(name="log-settled", verb="record", argument=f"{issue.id} {what}"),
            Write(name="move", verb="transition", argument="done"),
        )

    def writes_when_parked(self, issue: Issue, park: Park) -> Sequence[Write]:
        return (Write(name="log-parked", verb="record", argument=f"{issue.id} {park.kind}"),)

    async def record(self, effect: ev.EffectPlanned) -> str:
        self.tries += 1
        await self.open.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.entries.append(effect.argument)
        return self.said


def passing() -> TrackerError:
    return TrackerError(TrackerError.TRANSPORT, "the work log is locked")


def on_disk(store: Path) -> dict[str, ev.EffectPlanned]:
    with closing(connect_readonly(store)) as db:
        return load(db).schedule.effects


async def test_no_run_waits_for_an_entry_and_entries_keep_their_order(tmp_path):
    """LOG-14: a log that cannot be written for a while holds nothing up, and is complete after that."""
    source = Logged(
        [item("a"), item("b")], tmp_path / "work", policy=Policy(active_states=("todo",), max_concurrent=1)
    )
    source.open = anyio.Event()
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            await heard.wait(ev.Settled, "a")
            await heard.wait(ev.Settled, "b")
            assert source.entries == []
            source.open.set()
            orchestrator.drain()
    planned = [event for event in heard.all(ev.EffectPlanned) if event.verb == "record"]
    assert source.entries == [event.argument for event in planned]
    assert source.entries == ["a claimed", "a parked", "b claimed", "b parked"]
    assert {event.verb for event in heard.all(ev.EffectDone)} == {"record"}  # a settlement moves nothing


async def test_an_entry_is_planned_in_one_transaction_with_what_it_tells_of(tmp_path):
    source = Logged([item("a")], tmp_path / "work")
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        await orchestrator.run(until_idle=True)
    kinds = [ev.kind_of(event) for event in heard]
    assert kinds[kinds.index("settle") + 1] == "effect"


async def test_entries_that_a_dead_orchestrator_left_are_written_by_the_next_one(tmp_path):
    """LOG-14"""
    first = Logged([item("a"), item("b")], tmp_path / "work")
    first.open = anyio.Event()
    heard = EventCollector()
    orchestrator = Orchestrator(first, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            for name in ("a", "b"):
                await heard.wait(ev.Settled, name)
            while len(on_disk(tmp_path / "store.db")) < 4:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    planned = [event.argument for event in heard.all(ev.EffectPlanned)]
    assert len(planned) == 4
    assert heard.all(ev.EffectDone) == []

    second = Logged([item("a"), item("b")], tmp_path / "work")
    with anyio.fail_after(30):
        await Orchestrator(second, [FakeHost(one_turn)], tmp_path / "store.db").run(until_idle=True)
    assert second.entries == planned
    third = Logged([item("a"), item("b")], tmp_path / "work")
    with anyio.fail_after(30):
        await Orchestrator(third, [FakeHost(one_turn)], tmp_path / "store.db").run(until_idle=True)
    assert third.entries == []


async def test_a_service_that_ends_does_not_wait_for_a_log_that_nobody_can_write(tmp_path):
    """LOG-14: what is left is said, and the next start writes it."""
    source = Logged([item("a")], tmp_path / "work")
    source.open = anyio.Event()
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        await orchestrator.run(until_idle=True)
    assert heard.all(ev.Noted)[-1].message == (
        "the work log cannot be written: 2 entries are left to the next start"
    )
    assert len(on_disk(tmp_path / "store.db")) == 2
    with anyio.fail_after(30):
        await Orchestrator(
            again := Logged([item("a")], tmp_path / "work"), [FakeHost(one_turn)], tmp_path / "store.db"
        ).run(until_idle=True)
    assert again.entries == ["a claimed", "a parked"]
    assert on_disk(tmp_path / "store.db") == {}


async def test_what_there_is_to_say_of_the_log_is_a_warning(tmp_path):
    source, heard = Logged([item("a")], tmp_path / "work"), EventCollector()
    source.said = "somebody threw out an entry"
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        await orchestrator.run(until_idle=True)
    told = [narrate(event) for event in heard.all(ev.EffectDone)]
    assert [(one.level, one.text) for one in told] == [("warning", "somebody threw out an entry")] * 2


async def test_what_fails_for_a_moment_is_tried_again(tmp_path):
    """LOG-14"""
    source = Logged([item("a")], tmp_path / "work")
    source.failures = [passing()]
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        await orchestrator.run(until_idle=True)
    assert source.entries == ["a claimed", "a parked"]
    assert source.tries == 3
    assert all(event.ok for event in heard.all(ev.EffectDone))


async def test_a_log_that_stays_broken_costs_warnings_and_one_try_for_each_entry(tmp_path):
    """LOG-14: failures of the work log are warnings in the log of the run; nothing else follows from them."""
    names = ["a", "b", "c"]
    source = Logged([item(name) for name in names], tmp_path / "work")
    source.failures = [passing() for _ in range(100)]
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        await orchestrator.run(until_idle=True)
    assert source.tries == 3 + 5  # the first entry is tried three times, the other five once
    told = [narrate(event) for event in heard.all(ev.EffectDone)]
    assert {sentence.level for sentence in told} == {"warning"}
    assert {sentence.text for sentence in told} == {"entry in the work log failed: the work log is locked"}
    assert {event.issue_id for event in heard.all(ev.EffectDone)} == {*names}
    assert len(heard.all(ev.Settled)) == len(names)


async def test_an_issue_whose_budget_is_used_up_before_a_start_is_told_of(tmp_path):
    """LOG-14"""

    async def goes_on(_):
        yield TurnAsked(turn=1)
        yield TurnCompleted(turn=1)
        yield Ended(outcome=Outcome(status="failed", turns=1, error="not yet"))

    policy = Policy(
        active_states=STATES.active_states,
        per_issue=Limits(sessions=1),
        backoff_cap=0.01,
        terminal_states=("done",),
    )
    source = Logged([item("a")], tmp_path / "work", policy=policy)
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(goes_on)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        await orchestrator.run(until_idle=True)
    assert source.entries == ["a claimed", "a again", "a budget"]


async def test_a_source_that_fails_in_telling_of_a_run_costs_the_entry_alone(tmp_path):
    class Failing(Logged):
        def writes_when_settled(self, issue, claim, outcome, then):
            raise KeyError("oops")

        async def record(self, effect):
            raise KeyError("oops")

    source, heard = Failing([item("a")], tmp_path / "work"), EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        await orchestrator.run(until_idle=True)
    (done,) = heard.all(ev.EffectDone)
    assert not done.ok
    assert len(heard.all(ev.Settled)) == 1


async def test_a_source_without_a_log_says_so(tmp_path):
    class Forgetful(ListSource):
        def writes_at_start(self, issue, claim):
            return (Write(name="log", verb="record", argument="x"),)

    heard = EventCollector()
    source = Forgetful([item("a")], tmp_path / "work")
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(30):
        await orchestrator.run(until_idle=True)
    (done,) = heard.all(ev.EffectDone)
    assert (done.ok, done.detail) == (False, "a list keeps no work log.")
