"""The service: open the store, recover, then tick whenever there is a reason to, until told to stop.

One event loop owns all change. A finished run, a changed file or a person's command wakes it at once; the poll
interval is only for trackers that cannot tell us.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio

from .. import __version__
from ..core import events as ev
from ..core.liveness import next_deadline
from ..core.redact import Redactor
from ..errors import StoreError
from ..hosts.local import LocalHost
from ..hosts.run_order import Host
from ..process.orphans import Orphan, household
from ..process.platform import prepare
from ..process.sweep import end_orphans
from ..store import Store
from ..store.load import Loaded
from ..store.load import load as load_rows
from ..workflow.watch import FileWatch
from ..workspace.directory import Root
from . import adapters
from .active_run import ActiveRun
from .cleanup import Cleanup
from .clock import Clock
from .ledger import Ledger, Listener
from .memory import world_of
from .operating import obey_commands, pending
from .readiness import Readiness, is_certain
from .recovery import recover
from .reload import WorkflowKeeper
from .report import Glance, Summary, glance, summarise
from .services import Services
from .tick import Ticker

WATCH_EVERY = 0.25
TRIES_BEFORE_GIVING_UP = 3
DISK_PATIENCE = 5.0
LOOK_AFTER_ORPHANS_EVERY = 5.0

# An agent that leaves behind thousands of processes must not fill the store.
ORPHANS_NAMED = 5


class Orchestrator:
    """Drains a tracker with agents. `run` may be called once; `drain` ends it from outside.

    `workflow` is the file, or the directory of a WORKFLOW.md. `environ` is what settings and agents are taken from,
    our own environment if left out. Each of `listeners` is called with every event; `on_trouble` with a sentence
    while the store cannot be written, and with "" after that.
    """

    def __init__(
        self,
        workflow: Path | str,
        *,
        environ: Mapping[str, str] | None = None,
        env_file: Path | None = None,
        listeners: Sequence[Listener] = (),
        on_trouble: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
        host: Host | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        place = Path(workflow)
        self._keeper = WorkflowKeeper(place / "WORKFLOW.md" if place.is_dir() else place, self._environ, env_file)
        self._listeners = list(listeners)
        self._on_trouble = on_trouble
        self._clock = clock or Clock()
        self._host = host or LocalHost(self._environ)
        self._services: Services | None = None
        self._ticker: Ticker | None = None
        self._draining = asyncio.Event()

    async def run(self, *, until_idle: bool = False) -> Summary:
        """Work until drained, or until nothing is running, due or dispatchable."""
        prepare()
        config = self._keeper.current.config
        holder = {"workflow": str(config.path)}
        root = config.workspace.root
        async with Store.open(config.db_path, holder=holder, root=root, workflow=config.path) as store:
            day = self._clock.day(self._clock.now())
            loaded = await store.read(lambda db: load_rows(db, day))
            services = self._services = self._serve(store, loaded)
            try:
                await self._work(services, loaded, until_idle=until_idle)
            finally:
                await self._keeper.close_exchanged(services)
                await services.tracker.aclose()
            if store.is_lost():
                raise await store.lost()
            if services.ledger.gave_up:
                fix = "The next start takes up what was running, as after a crash."
                raise StoreError(f"The service ended with its store unwritten. {services.ledger.trouble}", fix=fix)
            return summarise(services.ledger.schedule, drained=self._draining.is_set())

    def drain(self) -> None:
        """Start nothing more, end the agents, keep what is needed to resume them, return from `run`."""
        self._draining.set()

    async def kill_agents(self) -> None:
        """End every process of every run by force. The next start closes their runs as it does after a crash."""
        if self._services:
            await end_orphans(self._services.ledger.store.store_id, [], grace=0.0)

    def glance(self) -> Glance | None:
        """What is going on now, for a person to look at; None before the store is open."""
        if not (self._services and self._ticker):
            return None
        return glance(self._services, list(self._ticker.runs.values()))

    def _serve(self, store: Store, loaded: Loaded) -> Services:
        workflow = self._keeper.current
        schedule = world_of(loaded, workflow.config.policy())
        ledger = Ledger(store, schedule, self._listeners, self._on_trouble, self._clock.on_calendar)
        return Services(
            ledger=ledger,
            clock=self._clock,
            host=self._host,
            workflow=workflow,
            tracker=adapters.build_tracker(workflow.config),
            agent=adapters.build_agent(workflow.config),
            redactor=Redactor(adapters.secrets(workflow.config, self._environ)),
            root=Root(workflow.config.workspace.root),
        )

    async def _work(self, services: Services, loaded: Loaded, *, until_idle: bool) -> None:
        cleanup = Cleanup(services, loaded.workspaces)
        services.ledger.listen(cleanup.heard)
        async with anyio.create_task_group() as background:
            background.start_soon(services.ledger.write_forever)
            self._open(services, loaded.unreadable)
            await self._recover(services, loaded)
            background.start_soon(cleanup.run_forever)
            readiness = Readiness(services, self._environ)
            background.start_soon(self._watch, services, readiness)
            background.start_soon(_tend_orphans, services)
            async with anyio.create_task_group() as runs:
                self._ticker = Ticker(services, lambda run: runs.start_soon(self._follow, run))
                background.start_soon(self._stop_when_asked, services, self._ticker)
                await self._tick_until_done(services, self._ticker, readiness, cleanup, until_idle=until_idle)
                await self._stop_all(services, self._ticker)
            await services.ledger.flushed()
            background.cancel_scope.cancel()

    async def _recover(self, services: Services, loaded: Loaded) -> None:
        """Given up where we are asked to stop meanwhile: the next start takes it up as this one did."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._give_up_when_asked, tasks.cancel_scope)
            await recover(services, loaded)
            tasks.cancel_scope.cancel()

    async def _give_up_when_asked(self, scope: anyio.CancelScope) -> None:
        await self._draining.wait()
        scope.cancel()

    def _open(self, services: Services, unreadable: Sequence[str]) -> None:
        now, config = self._clock.now(), services.workflow.config
        services.ledger.post(
            ev.Opened(at=now, pid=os.getpid(), version=__version__, workflow=str(config.path)),
            ev.PolicySet(at=now, policy=config.policy()),
            *(ev.Noted(at=now, level="warning", message=sentence) for sentence in unreadable),
        )

    async def _tick_until_done(
        self, services: Services, ticker: Ticker, readiness: Readiness, cleanup: Cleanup, *, until_idle: bool
    ) -> None:
        failures = 0
        while not self._draining.is_set():
            services.wake = anyio.Event()
            self._keeper.refresh(services)
            await obey_commands(services, ticker.runs)
            readiness.look()
            await ticker.tick()
            if not cleanup.busy:
                await self._keeper.close_exchanged(services, [run.tracker for run in ticker.runs.values()])
            failures = failures + 1 if ticker.trouble else 0
            schedule = services.ledger.schedule
            due = schedule.waiting and not ticker.trouble and not is_certain(schedule)
            busy = ticker.runs or ticker.undecided or due or cleanup.busy
            if until_idle and not busy:
                if ticker.trouble is None:
                    return
                if failures >= TRIES_BEFORE_GIVING_UP:
                    raise ticker.trouble
            with anyio.move_on_after(self._until_next(services, ticker, hurry=until_idle and failures > 0)):
                await services.wake.wait()

    def _until_next(self, services: Services, ticker: Ticker, *, hurry: bool) -> float:
        """Seconds to the next moment at which time alone can change a decision."""
        schedule, now = services.ledger.schedule, self._clock.now()
        moments = [now + (1.0 if hurry else services.workflow.config.polling_interval)]
        moments += [waiting.retry.due_at for waiting in schedule.waiting.values() if waiting.retry.due_at > now]
        moments += [pause.until for pause in schedule.pauses.values() if pause.until > now]
        if late := next_deadline(ticker.pulses(), schedule.policy):
            moments.append(late)
        return max(min(moments) - now, 0.0)

    async def _follow(self, run: ActiveRun) -> None:
        await run.go()
        assert self._ticker and self._services
        self._ticker.run_ended(run)
        self._services.wake.set()

    async def _stop_when_asked(self, services: Services, ticker: Ticker) -> None:
        """Whoever asked us to stop may be about to signal the agents too, and waits for no tracker."""
        await self._draining.wait()
        services.wake.set()
        ticker.stop_looking()
        with anyio.move_on_after(DISK_PATIENCE):
            await self._stop_all(services, ticker)
            return
        # A disk that refuses must not keep agents at work that somebody wants to end.
        services.ledger.give_up()
        await self._stop_all(services, ticker)

    async def _stop_all(self, services: Services, ticker: Ticker) -> None:
        """Drain: the cause is on disk before the first signal is sent."""
        running = services.ledger.schedule.running
        live = [run for key, run in running.items() if key in ticker.runs and not run.stop and not run.ended]
        now, detail = self._clock.now(), "the orchestrator was asked to stop"
        await services.ledger.record(
            *(
                ev.Stopping(at=now, issue_id=run.issue_id, run_id=run.run_id, cause="shutdown", detail=detail)
                for run in live
            )
        )
        for issue_id, active in ticker.runs.items():
            claim = running.get(issue_id)
            if claim and claim.stop:  # one that was claimed meanwhile has its turn when the last tick is over
                active.stop()

    async def _watch(self, services: Services, readiness: Readiness) -> None:
        """Wake the loop when a file changed, a missing agent is there, or a person left a command; end it when the
        store is gone."""
        while True:
            tracker = services.tracker
            watch = FileWatch([services.workflow.config.path, *tracker.watched_files()])
            while services.tracker is tracker:
                await anyio.sleep(WATCH_EVERY)
                self._look_after(services)
                if watch.changed() or readiness.look() or await pending(services):
                    services.wake.set()

    def _look_after(self, services: Services) -> None:
        """What happens after the store was lost is known to nobody later: the less, the better."""
        store = services.ledger.store
        if not self._draining.is_set() and store.is_lost():
            message = f"{store.loss}: nothing more starts, the agents are being ended"
            services.ledger.post(ev.Noted(at=self._clock.now(), level="error", message=message))
            self.drain()


async def _tend_orphans(services: Services) -> None:
    """What agents at work leave to us: zombies go, and people hear of processes whose owner nobody can tell."""
    in_doubt: set[tuple[int, int]] = set()
    while True:
        await anyio.sleep(LOOK_AFTER_ORPHANS_EVERY)
        looked = await household.look()
        _note_orphans(services, "ended what runs that are over had left behind", looked.ended)
        news = [one for one in looked.in_doubt if (one.pid, one.start_ticks) not in in_doubt]
        _note_orphans(services, "nobody knows whose this is; it is ended with the last run that can own it", news)
        in_doubt = {(one.pid, one.start_ticks) for one in looked.in_doubt}


def _note_orphans(services: Services, message: str, orphans: list[Orphan]) -> None:
    if not orphans:
        return
    named = [f"process {one.pid}: {services.redactor.text(one.command)}" for one in orphans[:ORPHANS_NAMED]]
    if len(orphans) > ORPHANS_NAMED:
        named.append(f"and {len(orphans) - ORPHANS_NAMED} more")
    services.ledger.post(
        ev.Noted(at=services.clock.now(), level="warning", message=message, detail="; ".join(named))
    )
