"""Hosts as the engine uses them: lost, back again, on the same machine as another one, rid of what is over."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from sortie import Orchestrator
from sortie.core import events as ev
from sortie.core.model import Issue
from sortie.hosts.host import Host, OpenRun, RunNotFound
from sortie.hosts.local_host import LocalHost
from sortie.process.identity import RUN_MARK, STORE_MARK
from sortie.testing.fakes import EventCollector
from sortie.testing.list_source import ListSource
from sortie.testing.remote_host import RemoteHost, launch
from sortie.testing.run_driver import ends, written

from .two_hosts import TwoHosts, end_of


def items(*names: str) -> list[Issue]:
    return [Issue(id=name, identifier=name, title=f"Task {name}", state="todo") for name in names]


@pytest.fixture
def machine(tmp_path):
    """A worker, and the way to start it once more."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(launch(tmp_path / "machine"))
        return started[-1]

    yield start
    for worker in started:
        worker.kill()
        worker.wait()


@pytest.fixture
def heard():
    return EventCollector()


def local(home: Path, capacity: int | None = None) -> LocalHost:
    return LocalHost(home / "store.db", capacity=capacity)


def orchestrator_of(home: Path, heard: EventCollector, script: str, *names: str) -> Orchestrator:
    """One run at once on each of the two hosts; the first item goes to the local one."""
    source = ListSource(items(*names), home / "work", script)
    hosts: list[Host] = [local(home, 1), RemoteHost(home / "machine", 1)]
    return Orchestrator(source, hosts, home / "store.db", listeners=[heard])


def sessions(heard: EventCollector, issue_id: str) -> int:
    """How many were charged and not refunded."""
    refunds = [event for event in heard.of(ev.Settled, issue_id) if event.refund]
    return len(heard.of(ev.Claimed, issue_id)) - len(refunds)


WAITS = "mkfifo gate; echo $$ > pid; read _ < gate"


async def let_on(workspace: Path) -> None:
    """The agent that waits in this workspace goes on."""
    await anyio.to_thread.run_sync((workspace / "gate").write_text, "on\n")


@pytest.mark.parametrize("loss", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_a_run_whose_host_is_lost_begins_again_on_another_and_costs_nothing(tmp_path, heard, machine, loss):
    worker = machine()
    # The second time its agent finds the gate, and has nothing to wait for.
    orchestrator = orchestrator_of(tmp_path, heard, f"test -e gate && exit; {WAITS}", "a", "b")
    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: orchestrator.run(until_idle=True))
            (agent,) = await written(tmp_path / "work" / "b" / "pid")
            worker.send_signal(loss)
            lost = await heard.wait(ev.RunEnded, "b")
            assert (lost.status, lost.stop) == ("cancelled", "lost")
            await heard.wait(ev.Settled, "b")
            await written(tmp_path / "work" / "a" / "pid")
            await let_on(tmp_path / "work" / "a")
        assert [claim.host for claim in heard.of(ev.Claimed, "b")] == ["worker", "local"]
        assert heard.of(ev.RunEnded, "b")[-1].status == "succeeded"
        assert (sessions(heard, "a"), sessions(heard, "b")) == (1, 1)
        if loss == signal.SIGKILL:
            os.kill(agent, signal.SIGKILL)  # the machine is gone, and so is all that was on it
        else:
            worker.send_signal(signal.SIGCONT)  # it notices that nobody believes in it any more
            await ends(agent)


async def test_a_host_that_is_back_takes_runs_again(tmp_path, heard, machine):
    worker = machine()
    orchestrator = orchestrator_of(tmp_path, heard, f"test -e gate && exit; {WAITS}", "a", "b")
    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: orchestrator.run(until_idle=True))
            (agent,) = await written(tmp_path / "work" / "b" / "pid")
            worker.kill()
            worker.wait()
            os.kill(agent, signal.SIGKILL)
            await heard.wait(ev.Settled, "b")
            assert (await heard.wait(ev.Skipped, "b")).rule == "no-host"
            machine()
            assert (await heard.wait(ev.Claimed, "b", 2)).host == "worker"
            await heard.wait(ev.Settled, "b", 2)
            await written(tmp_path / "work" / "a" / "pid")
            await let_on(tmp_path / "work" / "a")


async def test_a_start_without_the_host_of_an_open_run_goes_on_with_those_it_has(tmp_path):
    its = TwoHosts(tmp_path, "ListSource(map(item, ['1', '2', '3', '4']), home / 'work', agent)", *"1234")
    try:
        first = its.start()
        await its.diary("start", 4)
        there = [name for name, hosts in its.claims().items() if hosts == ["worker"]]
        for process in (first, its.worker):
            process.kill()
        first.communicate()
        its.worker.wait()
        second = its.start()
        await its.diary("start", 7)  # three at once
        its.open()
        await end_of(second)
        assert its.told("end") == dict.fromkeys("1234", 1)
        assert {name: its.claims()[name] for name in there} == {name: ["worker", "local"] for name in there}
    finally:
        its.close()


@pytest.mark.parametrize(("answers", "recorded"), [(0, ev.TurnStarted), (1, ev.ProcessStarted), (2, ev.TurnEnded)])
async def test_a_question_on_record_that_got_no_answer_is_asked_again(tmp_path, answers, recorded):
    """Killed between the two: the run waits for an answer, and the next orchestrator must give it."""
    its = TwoHosts(tmp_path, "ListSource([item('1')], home / 'work', agent)", "1", capacities=(0, 1))
    try:
        its.open()
        first = its.start(answers=answers)
        await its.diary("start", min(answers, 1))
        await its.logged(recorded)
        first.kill()
        first.communicate()
        await end_of(its.start())
        assert (its.claims(), its.told("start"), its.told("end")) == ({"1": ["worker"]}, {"1": 1}, {"1": 1})
    finally:
        its.close()


@pytest.mark.parametrize("kind", ["local", "worker"])
async def test_a_host_keeps_nothing_of_a_run_that_is_settled(tmp_path, heard, machine, kind):
    """It would grow with every run, and so would the records of its tools."""
    machine()
    hosts: dict[str, Callable[[], Host]] = {
        "local": lambda: local(tmp_path),
        "worker": lambda: RemoteHost(tmp_path / "machine"),
    }
    host = hosts[kind]()
    source = ListSource(items("a", "b", "c"), tmp_path / "work", "echo hello")
    with anyio.fail_after(30):
        summary = await Orchestrator(source, [host], tmp_path / "store.db", listeners=[heard]).run(until_idle=True)
        assert summary.clean
        for name in "abc":
            (claim,) = heard.of(ev.Claimed, name)
            assert claim.host == kind
            with pytest.raises(RunNotFound):
                await host.attach(claim.run_id)


async def test_a_sweep_spares_attached_runs_of_another_host_on_the_same_machine(tmp_path):
    store = uuid.uuid4().hex
    place = tmp_path / "work" / "a"
    place.mkdir(parents=True)
    environment = {STORE_MARK: store, RUN_MARK: "there", "SORTIE_WORKSPACE": str(place)}
    agent = subprocess.Popen(["sleep", "1000"], env=environment, start_new_session=True, cwd=place)
    host, root = local(tmp_path), str(tmp_path / "work")
    with anyio.fail_after(30):
        for store_id in (store, "another one that works in this root"):
            assert await host.sweep(store_id, [], root, ["there"]) == []
        assert agent.poll() is None
        run = OpenRun(store_id=store, run_id="there", host="local")
        assert [left.pid for left in await host.sweep(store, [run], root, ["there"])] == [agent.pid]
    assert agent.wait() == -signal.SIGTERM
