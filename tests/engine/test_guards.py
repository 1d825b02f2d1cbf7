"""Parts of other people that do what they must not: it costs the item, or the runs of that host, nobody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest

from sortie import ConfigurationError, Orchestrator
from sortie.core import events as ev
from sortie.core.model import Issue
from sortie.core.schedule import Schedule
from sortie.hosts.host import HostInfo, RunLost
from sortie.hosts.local_host import LocalHost
from sortie.store.commands import add_commands
from sortie.testing.fake_host import FakeHost, one_turn
from sortie.testing.fakes import EventCollector
from sortie.testing.list_source import ListSource


def item(name: str) -> Issue:
    return Issue(id=name, identifier=name, title=f"Task {name}", state="todo")


def names(subject: object) -> Any:
    return getattr(subject, "issue_id", getattr(subject, "id", subject))


def failing(method: str, error: Exception) -> type[ListSource]:
    """A list whose method fails wherever it is about the item `bad`, and where it is about none."""

    def fail(self: ListSource, *arguments: Any) -> Any:
        if not arguments or "bad" in map(names, arguments) or isinstance(arguments[0], Schedule):
            raise error
        return getattr(ListSource, method)(self, *arguments)

    async def fail_later(self: ListSource, *arguments: Any) -> Any:
        answer = fail(self, *arguments)
        return await answer

    is_async = method in ("look", "fetch", "transition", "comment", "fetch_states", "news", "obey")
    return type("Failing", (ListSource,), {method: fail_later if is_async else fail})


@pytest.mark.parametrize(
    "method",
    [
        "fetch",
        "transition",
        "writes_at_end",
        "conclude",
        "missing_agent",
        "spec_for",
        "progress_state",
        "needs_login",
        "remember",
        "news",
        "moved",
        "give_up",
    ],
)
async def test_a_source_that_fails_for_one_item_costs_that_item_alone(tmp_path, method):
    source = failing(method, KeyError("oops"))([item("bad"), item("good")], tmp_path / "work")
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            ended = await heard.wait(ev.Settled, "good")
            await heard.wait(ev.Settled, "bad")
            orchestrator.drain()
    assert ended.park is not None  # its agent asks for a review


async def test_a_command_that_a_source_fails_in_is_refused(tmp_path):
    source = failing("obey", KeyError("oops"))([item("bad")], tmp_path / "work")
    heard = EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            await heard.wait(ev.Settled, "bad")
            add_commands(tmp_path / "store.db", "polish", ["bad"])
            done = await heard.wait(ev.Commanded, "bad")
            orchestrator.drain()
    assert not done.ok and "oops" in done.outcome


async def test_a_source_whose_look_fails_is_asked_again(tmp_path):
    class Shaky(ListSource):
        looks = 0

        async def look(self, schedule: Schedule) -> Any:
            self.looks += 1
            if self.looks < 3:
                raise KeyError("oops") if self.looks == 1 else RuntimeError
            return None if self.looks == 3 else await super().look(schedule)

    source, heard = Shaky([item("good")], tmp_path / "work", poll_interval=0.05), EventCollector()
    orchestrator = Orchestrator(source, [FakeHost(one_turn)], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            await heard.wait(ev.Settled, "good")
            orchestrator.drain()
    told = [note.detail for note in heard.all(ev.Noted) if "cannot be used" in note.message]
    assert any("KeyError" in detail for detail in told)
    assert any("instead of a Look" in detail for detail in told)


def broken_host(method: str, fail: Callable[[], Exception]) -> type[FakeHost]:
    async def raises(self: FakeHost, *arguments: Any, **more: Any) -> Any:
        raise fail()

    return type("Broken", (FakeHost,), {method: raises})


@pytest.mark.parametrize("method", ["hosts", "start", "sweep", "remains", "tidy", "cancel", "kill", "aclose"])
@pytest.mark.parametrize("fail", [lambda: OSError("gone"), lambda: RunLost("gone"), lambda: KeyError("oops")])
async def test_a_host_that_fails_leaves_the_runs_of_the_others_alone(tmp_path, method, fail):
    bad = broken_host(method, fail)(one_turn, name="bad", capacity=1)
    good = FakeHost(one_turn, name="good", capacity=1)
    heard = EventCollector()
    source = ListSource([item("a"), item("b")], tmp_path / "work")
    orchestrator = Orchestrator(source, [good, bad], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            await heard.wait(ev.RunEnded)
            await orchestrator.kill_agents()
            orchestrator.drain()
    assert any(claim.host == "good" for claim in heard.all(ev.Claimed))


async def test_two_hosts_with_machines_of_one_name_are_refused(tmp_path):
    hosts = [LocalHost(tmp_path / "store.db"), LocalHost(tmp_path / "store.db")]
    source = ListSource([item("a")], tmp_path / "work")
    with pytest.raises(BaseExceptionGroup) as refused:
        await Orchestrator(source, hosts, tmp_path / "store.db").run(until_idle=True)
    assert refused.group_contains(ConfigurationError, match="Two hosts call a machine local", depth=None)


class Unanswering(FakeHost):
    """Its first answer is late, the next in time."""

    asked = 0

    async def hosts(self) -> Sequence[HostInfo]:
        self.asked += 1
        if self.asked == 1:
            raise RunLost("not yet")
        return await super().hosts()


async def test_a_host_that_could_not_be_asked_takes_runs_when_it_can(tmp_path):
    source, heard = ListSource([item("a")], tmp_path / "work"), EventCollector()
    host = Unanswering(one_turn, name="late")
    orchestrator = Orchestrator(source, [host], tmp_path / "store.db", listeners=[heard])
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            assert (await heard.wait(ev.Claimed, "a")).host == "late"
            await heard.wait(ev.Settled, "a")
            orchestrator.drain()
