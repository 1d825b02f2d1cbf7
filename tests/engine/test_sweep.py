"""Clean-up asks for the states of many workspaces a few at a time, no further once it is refused, and leaves the
calls of a server to those who look at what there is to do."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import sortie
from sortie.core import events as ev
from sortie.core.model import Issue
from sortie.core.redact import Redactor
from sortie.engine.cleanup import ASKED_AT_ONCE, Cleanup
from sortie.engine.clock import Clock
from sortie.engine.context import Context, HostPool
from sortie.engine.ledger import Ledger
from sortie.errors import TrackerError
from sortie.hosts.host import Removed
from sortie.hosts.local_host import LocalHost
from sortie.runs.run_log import RunLog, log_path
from sortie.sources.issues import IssueSource
from sortie.store import Store
from sortie.store.connect import connect_readonly
from sortie.store.queries import events
from sortie.testing.list_source import ListSource
from sortie.trackers.tracker import CallUse

pytestmark = pytest.mark.anyio

COUNT = 2 * ASKED_AT_ONCE + 10
ITEMS = [Issue(id=f"t{n:03}", identifier=f"t{n:03}", title="t", state="todo") for n in range(COUNT)]
BLOCKED = "mkdir -p .sortie; echo blocked > .sortie/status"


class Counting(ListSource):
    """`most` is how often states are told before the server has had enough."""

    most = 1000
    asked: tuple[int, ...] = ()

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        self.asked = (*self.asked, len(issue_ids))
        if len(self.asked) > self.most:
            raise TrackerError(TrackerError.API, "enough.")
        return await super().fetch_states(issue_ids)


@pytest.mark.parametrize(("most", "asked"), [(1000, [ASKED_AT_ONCE, ASKED_AT_ONCE, 10]), (1, [ASKED_AT_ONCE] * 2)])
async def test_states_are_asked_for_in_slices_until_one_is_refused(tmp_path, most, asked):
    """A tracker that has to be asked for each by itself would otherwise refuse all of them, time after time."""
    source = Counting(ITEMS, tmp_path / "work", BLOCKED)
    source.most = most
    for each in (ListSource(ITEMS, tmp_path / "work", BLOCKED), source):
        await run(each, tmp_path)
    assert list(source.asked) == asked


class Metered(ListSource):
    """Asks a server, of which the budget allows `per_minute` calls; a question takes `cost` for each issue."""

    cost = 1
    made = 4  # by a look
    whole = 1  # what a question takes besides
    per_minute = 120
    enough = 1000  # after so many questions there is no answer any more
    asked: tuple[tuple[str, ...], ...] = ()
    asked_enough: anyio.Event

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        self.asked = (*self.asked, tuple(issue_ids))
        self.made += self.cost * len(issue_ids) + self.whole
        if len(self.asked) == self.enough:
            self.asked_enough.set()
            await anyio.sleep_forever()
        return await super().fetch_states(issue_ids)

    def call_use(self) -> CallUse:
        return CallUse(made=self.made, per_minute=self.per_minute)


@pytest.mark.parametrize(("cost", "made", "slices"), [(1, 4, [20, 20]), (1, 100, [20]), (0, 4, [20] * 5 + [10])])
async def test_a_sweep_leaves_most_calls_of_a_server_to_the_looks(tmp_path, cost, made, slices):
    """Where an answer tells many states it is complete at once; where each takes a call, the next one goes on."""
    await run(ListSource(ITEMS, tmp_path / "work", BLOCKED), tmp_path)
    source = Metered(ITEMS, tmp_path / "work", BLOCKED)
    source.cost, source.made = cost, made
    await run(source, tmp_path)
    assert [len(asked) for asked in source.asked] == slices


async def test_the_next_sweep_goes_on_where_the_last_one_stopped(tmp_path):
    """It begins anywhere, so that short runs come to all of them too."""
    await run(ListSource(ITEMS, tmp_path / "work", BLOCKED), tmp_path)
    source = Metered(ITEMS, tmp_path / "work", BLOCKED)
    source.made, source.enough, source.asked_enough = 100, 6, anyio.Event()
    hosts = HostPool([LocalHost(tmp_path / "db", os.environ)])
    async with Store.open(tmp_path / "db", holder={}) as store:
        context = Context(
            ledger=Ledger(store), clock=Clock(), source=source, hosts=hosts, redactor=Redactor([]), fence="f"
        )
        with anyio.fail_after(50):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(Cleanup(context, check_every=0.0).run_forever)
                await source.asked_enough.wait()
                tasks.cancel_scope.cancel()
    asked = [key for some in source.asked for key in some]
    assert [len(some) for some in source.asked] == [20] * 6
    assert {*asked} == {item.id for item in ITEMS}
    assert len({*asked[:COUNT]}) == COUNT, "each once before any is asked for again"


class Unreadable(ListSource):
    """One of its items cannot be read, and a question about it is not answered at all."""

    asked = 0
    told: frozenset[str] = frozenset()
    asked_enough: anyio.Event

    async def fetch_states(self, issue_ids: Collection[str]) -> Mapping[str, str]:
        self.asked += 1
        if self.asked == 200:
            self.asked_enough.set()
            await anyio.sleep_forever()
        if "t003" in issue_ids:
            raise TrackerError(TrackerError.API, "t003 is broken.")
        self.told |= {*issue_ids}
        return await super().fetch_states(issue_ids)


async def test_one_that_cannot_be_read_does_not_keep_the_others_from_being_swept(tmp_path):
    """Nobody knows which one it is: fewer are asked for at once until it is alone, and then it is passed over."""
    items = ITEMS[:20]
    await run(ListSource(items, tmp_path / "work", BLOCKED), tmp_path)
    source = Unreadable(items, tmp_path / "work", BLOCKED)
    source.asked_enough = anyio.Event()
    hosts = HostPool([LocalHost(tmp_path / "db", os.environ)])
    async with Store.open(tmp_path / "db", holder={}) as store:
        context = Context(
            ledger=Ledger(store), clock=Clock(), source=source, hosts=hosts, redactor=Redactor([]), fence="f"
        )
        with anyio.fail_after(50):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(Cleanup(context, check_every=0.0).run_forever)
                await source.asked_enough.wait()
                tasks.cancel_scope.cancel()
    assert {item.id for item in items} - source.told == {"t003"}


async def test_a_small_budget_has_small_slices(tmp_path):
    """So many that one question never takes all of it."""
    await run(ListSource(ITEMS[:10], tmp_path / "work", BLOCKED), tmp_path)
    source = Metered(ITEMS[:10], tmp_path / "work", BLOCKED)
    source.cost, source.made, source.whole, source.per_minute = 0, 0, 0, 6
    await run(source, tmp_path)
    assert [len(asked) for asked in source.asked] == [1] * 10


async def run(source: ListSource, root: Path) -> None:
    with anyio.fail_after(50):
        await sortie.Orchestrator(source, [LocalHost(root / "db", os.environ)], root / "db").run(until_idle=True)


class Slow(LocalHost):
    """Removes a workspace, and is done with it only when everybody else has been told to stop."""

    asked: anyio.Event

    async def remove_workspace(self, *given: Any, **more: Any) -> Removed:
        self.asked.set()
        with anyio.CancelScope(shield=True):
            while any("Looker" in task.get_name() for task in asyncio.all_tasks()):
                await anyio.lowlevel.checkpoint()
            removed = await super().remove_workspace(*given, **more)
        return removed  # noqa: RET504 - the scope might hold back what is raised in it


WORKFLOW = """---
tracker: {kind: file, active_states: [todo], terminal_states: [done]}
agent: {kind: command, command: "mv ../../done.json ../../issues.json"}
---
Do it.
"""


def ends_its_issue(place: Path) -> IssueSource:
    """One issue, whose agent moves it to an end: then its workspace is removed."""
    (place / "WORKFLOW.md").write_text(WORKFLOW)
    for name, state in (("issues", "todo"), ("done", "done")):
        (place / f"{name}.json").write_text(
            f'[{{"id": "1", "identifier": "T-1", "title": "t", "state": "{state}"}}]'
        )
    return IssueSource.open(place / "WORKFLOW.md", os.environ, None)


async def test_a_workspace_that_is_removed_while_the_service_stops_does_not_keep_it(tmp_path):
    source = ends_its_issue(tmp_path)
    host = Slow(source.config.db_path, os.environ)
    host.asked = anyio.Event()
    orchestrator = sortie.Orchestrator(source, [host], source.config.db_path)
    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(orchestrator.run)
            await host.asked.wait()
            orchestrator.drain()
    with closing(connect_readonly(source.config.db_path)) as db:
        assert events(db, kind="workspace_gone")


async def test_what_is_kept_of_a_run_that_goes_on_is_not_deleted_however_short_it_is_kept(tmp_path):
    """Its agent may be silent for long; what its tools did is read after its turn."""
    source = ListSource(ITEMS[:1], tmp_path / "work")
    source.keep_days = 0.0
    hosts = HostPool([LocalHost(tmp_path / "db", os.environ)])
    async with Store.open(tmp_path / "db", holder={}) as store, anyio.create_task_group() as tasks:
        context = Context(
            ledger=Ledger(store), clock=Clock(), source=source, hosts=hosts, redactor=Redactor([]), fence="f"
        )
        context.ledger.post(ev.Claimed(at=1.0, issue_id="t000", identifier="t000", run_id="1-goes-on", attempt=1))
        kept = [log_path(store.path, run_id) for run_id in ("1-goes-on", "0-ended")]
        for path in kept:
            RunLog(path).write(0.0, "agent", "at work")
            os.utime(path, (0, 0))
        tasks.start_soon(Cleanup(context).run_forever)
        await context.wake.wait()
        tasks.cancel_scope.cancel()
    assert [path.exists() for path in kept] == [True, False]


class Timed(LocalHost):
    """Knows by when whoever has a workspace removed wants that to be over."""

    deadline = 0.0
    removed: anyio.Event

    async def remove_workspace(self, *given: Any, **more: Any) -> Removed:
        self.deadline = anyio.current_effective_deadline()
        removed = await super().remove_workspace(*given, **more)
        self.removed.set()
        return removed


async def test_the_next_sweep_waits_for_a_removal_that_has_begun(tmp_path):
    """An archive may take its time: given up for a sweep, it would be begun anew, and its hook with it."""
    source = ends_its_issue(tmp_path)
    host = Timed(source.config.db_path, os.environ)
    host.removed = anyio.Event()
    orchestrator = sortie.Orchestrator(source, [host], source.config.db_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orchestrator.run)
        await host.removed.wait()
        orchestrator.drain()
    assert host.deadline == math.inf
