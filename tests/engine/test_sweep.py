"""Clean-up asks for the states of many workspaces a few at a time, and no further once it is refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import sortie
from sortie.core.model import Issue
from sortie.engine.cleanup import ASKED_AT_ONCE
from sortie.errors import TrackerError
from sortie.hosts.host import Removed
from sortie.hosts.local_host import LocalHost
from sortie.sources.issues import IssueSource
from sortie.store.connect import connect_readonly
from sortie.store.queries import events
from sortie.testing.list_source import ListSource

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
        with anyio.fail_after(50):
            hosts = [LocalHost(tmp_path / "db", os.environ)]
            await sortie.Orchestrator(each, hosts, tmp_path / "db").run(until_idle=True)
    assert list(source.asked) == asked


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


async def test_a_workspace_that_is_removed_while_the_service_stops_does_not_keep_it(tmp_path):
    (tmp_path / "WORKFLOW.md").write_text(WORKFLOW)
    for name, state in (("issues", "todo"), ("done", "done")):
        (tmp_path / f"{name}.json").write_text(
            f'[{{"id": "1", "identifier": "T-1", "title": "t", "state": "{state}"}}]'
        )
    source = IssueSource.open(tmp_path / "WORKFLOW.md", os.environ, None)
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
