"""Issues of a tracker in memory, run by the real engine on a host without processes; a test moves the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from sortie import Orchestrator
from sortie.core import events as ev
from sortie.core.conclude import Outcome
from sortie.core.model import Issue
from sortie.core.schedule import Schedule
from sortie.engine.report import Summary
from sortie.errors import TrackerError
from sortie.reports.timeline import situation_of
from sortie.runs.messages import Ended, TurnAsked, TurnCompleted
from sortie.sources.issues import IssueSource
from sortie.store.connect import connect_readonly
from sortie.store.load import Loaded, load
from sortie.testing.fake_host import FakeHost
from sortie.testing.fakes import EventCollector, ManualClock
from sortie.workflow.reloader import Reloader

from ..sources.listing_tracker import ListingTracker

EVERYTHING = ("list", "states", "full", "move", "comment")
WORKFLOW = """---
tracker:
  kind: file
  active_states: [todo]
  handoff_state: review
  terminal_states: [done]
  comments: {on_completion: true, on_failure: true, on_dispatch: true}
polling: {interval_ms: 100}
agent: {kind: command, command: "true", max_concurrent_agents: 2}
---
Do {{ issue.description }}
"""


async def review(_):
    yield TurnAsked(turn=1)
    yield TurnCompleted(turn=1, signal="needs-human-review")
    yield Ended(outcome=Outcome(status="succeeded", turns=1, soft_stop="needs-human-review"))


class Scene:
    """A tracker, a host without processes, and orchestrators that work for them one after the other."""

    def __init__(self, directory, *issues: Issue) -> None:
        self.directory = directory
        (directory / "WORKFLOW.md").write_text(WORKFLOW)
        self.tracker = ListingTracker(issues)
        self.clock = ManualClock()
        self.heard = EventCollector()
        self.host = FakeHost(review)
        self.orchestrator: Orchestrator

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The engine at work; at the end of the block it is asked to stop, and waited for."""
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                self.start(tasks)
                yield
                self.orchestrator.drain()

    def start(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self.run)

    async def run(self, *, until_idle: bool = False) -> Summary:
        reloader = Reloader(self.directory / "WORKFLOW.md", environ={})
        source = IssueSource(reloader, {}, tracker=self.tracker)
        self.orchestrator = Orchestrator(
            source, [self.host], self.directory / "store.db", listeners=[self.heard], clock=self.clock
        )
        return await self.orchestrator.run(until_idle=until_idle)

    def limited(self, seconds: float = 3600.0, *kinds: str) -> None:
        self.tracker.limits = kinds or EVERYTHING
        until = self.clock.now() + seconds
        self.tracker.limit = TrackerError(TrackerError.RATE_LIMITED, "slow down.", until=until)

    def limit_ends(self, seconds: float = 3600.0) -> None:
        self.tracker.limit = None
        self.clock.advance(seconds)

    async def asked(self, kind: str, more: int = 1) -> None:
        """Wait until the tracker was asked so much more of it."""
        enough = self.tracker.calls[kind] + more
        while self.tracker.calls[kind] < enough:
            await anyio.sleep(0.01)

    def notes(self, part: str) -> list[str]:
        return [note.message for note in self.heard.all(ev.Noted) if part in note.message]

    def stored(self) -> Schedule:
        return self.loaded().schedule

    def loaded(self) -> Loaded:
        return load(connect_readonly(self.directory / "store.db"))

    def why(self, issue_id: str) -> str:
        return situation_of(issue_id, self.loaded(), self.clock.now(), served=True).sentence
