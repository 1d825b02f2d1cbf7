"""A source that is exchanged while the service runs: nobody loses the one in use, and none stays open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from sortie import Orchestrator
from sortie.core import events as ev
from sortie.core.model import Issue
from sortie.core.observe import Look
from sortie.core.schedule import Schedule
from sortie.errors import TrackerError
from sortie.runs.messages import TurnAsked
from sortie.sources.source import Renewal
from sortie.testing.fake_host import FakeHost
from sortie.testing.fakes import EventCollector, ManualClock
from sortie.testing.list_source import ListSource


class Renewed(ListSource):
    """Gives way to `following` when its file changes."""

    def __init__(self, root: Path, *items: Issue) -> None:
        super().__init__(items, root)
        self.file = root / "settings"
        self.file.touch()
        self.following: Renewed | None = None
        self.limit: TrackerError | None = None
        self.looks_until_closed = False
        self.looked, self.closed = anyio.Event(), anyio.Event()
        self.was_closed_in_a_look = False

    @property
    def watched_files(self) -> Sequence[Path]:
        return (self.file,)

    async def look(self, schedule: Schedule) -> Look:
        if self.looks_until_closed:
            self.looked.set()
            with anyio.move_on_after(1.5):
                await self.closed.wait()
            self.was_closed_in_a_look = self.closed.is_set()
        if self.limit:
            raise self.limit
        self.looked.set()
        return await super().look(schedule)

    def renew(self) -> Renewal | None:
        return Renewal(self.following) if self.following else None

    def give_way(self) -> Renewed:
        self.following = Renewed(Path(self.workspace_root), *self.items.values())
        self.file.write_text("changed")
        return self.following

    async def aclose(self) -> None:
        self.closed.set()


class Scene:
    def __init__(self, directory: Path, *items: Issue) -> None:
        self.source = Renewed(directory, *items)
        self.heard, self.clock = EventCollector(), ManualClock()
        self.orchestrator = Orchestrator(
            self.source, [FakeHost(work)], directory / "store.db", listeners=[self.heard], clock=self.clock
        )


async def work(_):
    yield TurnAsked(turn=1)
    await anyio.sleep_forever()


@pytest.fixture
def scene(tmp_path):
    return lambda *items: Scene(tmp_path, *items)


async def test_one_that_a_look_asks_is_closed_after_that(scene):
    its = scene()
    its.source.looks_until_closed = True
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(its.orchestrator.run)
            await its.source.looked.wait()
            its.source.give_way()
            await its.source.closed.wait()
            its.orchestrator.drain()
    assert not its.source.was_closed_in_a_look


async def test_one_that_a_run_uses_until_the_end_is_closed_then(scene):
    its = scene(Issue(id="a", identifier="A", title="a", state="todo"))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(its.orchestrator.run)
            await its.heard.wait(ev.TurnStarted, "a")
            await its.source.give_way().looked.wait()
            assert not its.source.closed.is_set()
            its.orchestrator.drain()
    assert its.source.closed.is_set()


async def test_a_limit_of_the_tracker_before_is_none_of_the_next(scene):
    """Whoever puts in another token, because the last one is limited, need not start again."""
    its = scene()
    until = its.clock.now() + 3600
    its.source.limit = TrackerError(TrackerError.RATE_LIMITED, "slow down.", until=until)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(its.orchestrator.run)
            await its.heard.wait(ev.Noted)
            assert not its.source.looked.is_set()
            await its.source.give_way().looked.wait()
            assert its.clock.now() < until
            its.orchestrator.drain()
