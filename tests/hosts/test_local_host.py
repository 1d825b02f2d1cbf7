"""The host in this process keeps the contract, and ends its runs when it is closed."""

from __future__ import annotations

import os
import subprocess
import uuid
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from sortie.errors import ConfigurationError, WorkspaceError
from sortie.hosts.host import OpenRun, Removal, RemovalRefused
from sortie.hosts.local_host import LocalHost
from sortie.hosts.run_once import run_once
from sortie.process.identity import RUN_MARK, STORE_MARK, mark_of
from sortie.runs import messages as say
from sortie.runs.spec import AgentSpec, KnownWorkspace
from sortie.testing.host_contract import HostContract
from sortie.testing.run_driver import STORE, end_of, ends, follow, of_kind, spec_for, until, written
from tests.e2e.processes import wait_for


class TestLocalHost(HostContract):
    @asynccontextmanager
    async def host(self, directory):
        host = LocalHost(directory / "store.db")
        try:
            yield host
        finally:
            await host.aclose()


@pytest.fixture
async def host(tmp_path):
    host = LocalHost(tmp_path / "store.db")
    yield host
    with anyio.fail_after(30):
        await host.aclose()


async def begun(host, spec):
    """A run whose agent is at work."""
    await host.start(spec.run_id, "fence", spec)
    spawned = await until(host, spec.run_id, say.ProcessSpawned)
    await host.answer(spec.run_id, spawned.number, say.Recorded())
    return spawned


async def test_closing_ends_what_runs(host, tmp_path):
    await begun(host, spec_for(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 1000"))
    (pid,) = await written(tmp_path / "pid")
    with anyio.fail_after(30):
        await host.aclose()
        await ends(pid)


async def test_kill_ends_processes_at_once(host, tmp_path):
    spec = spec_for(tmp_path, f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 1; done")
    spawned = await begun(host, spec)
    (pid,) = await written(tmp_path / "pid")
    with anyio.fail_after(30):
        await host.kill()
        await ends(pid)
        assert end_of(await follow(host, spec.run_id, after=spawned.number)).outcome.status == "failed"


async def test_what_a_dead_orchestrator_left_is_ended(host):
    store = uuid.uuid4().hex
    left = subprocess.Popen(["sleep", "1000"], env={STORE_MARK: store, RUN_MARK: "gone"}, start_new_session=True)
    # `Popen` returns an instant before the environment of the new program can be read.
    wait_for(lambda: mark_of(left.pid, STORE_MARK))
    with anyio.fail_after(30):
        found = await host.sweep(store, [])
    assert [(one.pid, one.run_id) for one in found] == [(left.pid, "gone")]
    assert left.wait() == -15


async def test_a_sweep_spares_runs_that_go_on_and_ends_those_that_are_named(host, tmp_path):
    named = spec_for(tmp_path, f"echo $$ > {tmp_path}/named; sleep 1000", "T-1")
    spared = spec_for(tmp_path, f"echo $$ > {tmp_path}/spared; sleep 1000", "T-2")
    await begun(host, named)
    await begun(host, spared)
    pids = [*await written(tmp_path / "named"), *await written(tmp_path / "spared")]
    with anyio.fail_after(30):
        await host.sweep(STORE, [OpenRun(store_id=STORE, run_id=named.run_id, host="local")])
        await ends(pids[0])
    assert os.path.exists(f"/proc/{pids[1]}")
    assert (await host.status(spared.run_id)).state == "running"


async def test_records_of_tools_are_kept_until_their_run_is_over(host, tmp_path):
    logs = tmp_path / "store.logs"
    logs.mkdir()
    record = b'{"tool": "sortie_status", "result": "success", "ms": 1.0}'
    for run_id in ("open", "over"):
        (logs / f"{run_id}.tools").write_bytes(record + b"\nnonsense\n")
    still_open = OpenRun(store_id=STORE, run_id="open", host="local")
    await host.sweep(STORE, [still_open])
    assert [path.name for path in logs.iterdir()] == ["open.tools"]
    for _ in range(2):  # a second crash must not lose them
        remains = await host.remains(still_open)
        assert (remains.in_place, remains.tool_lines) == (False, (record,))


async def test_another_directory_in_the_place_of_a_workspace_says_nothing(host, tmp_path):
    place = tmp_path / "workspace"
    (place / ".sortie").mkdir(parents=True)
    (place / ".sortie" / "status").write_text("blocked\nreason: a lie\n")
    (place / ".sortie" / "mcp.json").write_text("{}")
    run = OpenRun(store_id=STORE, run_id="r", host="local", workspace=str(place), inode=place.stat().st_ino + 1)
    assert (await host.remains(run)).signal == ""
    assert (place / ".sortie" / "mcp.json").exists()
    remains = await host.remains(replace(run, inode=place.stat().st_ino))
    assert (remains.in_place, remains.signal, remains.reason) == (True, "blocked", "a lie")
    assert not (place / ".sortie" / "mcp.json").exists()


async def test_a_removal_gives_way_to_a_run(host, tmp_path):
    first = spec_for(tmp_path, "echo precious > result")
    await host.start(first.run_id, "fence", first)
    (place,) = of_kind(await follow(host, first.run_id), say.WorkspaceReady)
    known = KnownWorkspace(issue_id="T-1", path=place.path, inode=place.inode, used=True)
    workspace = replace(first.workspace, known=known)
    hook = f"echo $$ > {tmp_path}/hook; sleep 1000"
    removal = Removal(store_id=STORE, issue=first.issue, attempt=1, workspace=workspace, before_remove=hook)
    refused = []

    async def remove():
        with pytest.raises(RemovalRefused) as error:
            await host.remove_workspace(removal)
        refused.append(error.value)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(remove)
            (pid,) = await written(tmp_path / "hook")
            second = spec_for(tmp_path, "cat result", workspace=workspace)
            await host.start(second.run_id, "fence", second)
            heard = await follow(host, second.run_id)
            await ends(pid)
    assert "precious" in [line.text for line in of_kind(heard, say.Line)]
    assert len(refused) == 1


async def test_the_hook_before_a_removal_runs_once_however_often_that_is_tried(host, tmp_path):
    spec = spec_for(tmp_path, "true")
    await host.start(spec.run_id, "fence", spec)
    (place,) = of_kind(await follow(host, spec.run_id), say.WorkspaceReady)
    known = KnownWorkspace(issue_id="T-1", path=place.path, inode=place.inode, used=True)
    (tmp_path / "store.archive").write_text("in the way")
    removal = Removal(
        store_id=STORE,
        issue=spec.issue,
        attempt=1,
        workspace=replace(spec.workspace, known=known),
        before_remove=f"echo 1 >> {tmp_path}/hook; exit 1",
    )
    for _ in range(2):
        with pytest.raises(WorkspaceError):
            await host.remove_workspace(removal)
    (tmp_path / "store.archive").unlink()
    assert (await host.remove_workspace(removal)).archive
    assert await written(tmp_path / "hook") == [1]


async def test_an_agent_is_built_once_for_the_same_settings(host, tmp_path):
    """One that remembers goes on where it was: the second turn of its script is that of the second run."""
    agent = AgentSpec(kind="mock", options={"turns": [{"lines": ["one"]}, {"lines": ["two"]}]})
    lines = []
    for _ in range(2):
        spec = spec_for(tmp_path, "", agent=agent)
        lines.append((await run_once(host, spec)).last_line)
    assert lines == ["one", "two"]


async def test_an_agent_that_nobody_knows_begins_no_run(host, tmp_path):
    spec = spec_for(tmp_path, "", agent=AgentSpec(kind="no-such-kind"))
    with pytest.raises(ConfigurationError):
        await host.start(spec.run_id, "fence", spec)
    assert (await host.status(spec.run_id)).state == "unknown"


async def test_one_run_in_one_call(host, tmp_path):
    finished = await run_once(host, spec_for(tmp_path, "echo one; echo ready"))
    assert (finished.outcome.status, finished.last_line, finished.tool_lines) == ("succeeded", "ready", ())


async def test_whoever_gives_up_waiting_for_one_run_has_ended_it(host, tmp_path):
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_once, host, spec_for(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 1000"))
            (pid,) = await written(tmp_path / "pid")
            tasks.cancel_scope.cancel()
        await ends(pid)


async def test_turns_follow_until_the_judge_of_one_run_is_content(host, tmp_path):
    spec = spec_for(tmp_path, "cat")
    spec = replace(spec, limits=replace(spec.limits, max_turns=5))

    async def judge(turn):
        return f"still wrong after {turn}" if turn < 3 else ""

    finished = await run_once(host, spec, judge=judge)
    assert (finished.outcome.status, finished.outcome.turns) == ("succeeded", 3)
    assert finished.last_line == "still wrong after 2"
