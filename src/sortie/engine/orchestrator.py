"""The service: open the store, recover, then decide whenever there is a reason to, until told to stop.

One event loop owns all change. A finished run, something new in the source or a person's command wakes it at once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import anyio
from anyio.abc import TaskGroup

from .. import __version__
from ..core import events as ev
from ..core.model import Usage
from ..core.policy import next_deadline
from ..core.redact import Redactor
from ..errors import StoreError
from ..hosts.host import Host
from ..process.spawn import prepare
from ..sources.guarded import GuardedSource
from ..sources.source import Source
from ..store import Store
from ..workspace.directory import Root
from .active_run import ActiveRun
from .answers import AnswerComments
from .cleanup import Cleanup
from .clock import Clock
from .context import Context, HostPool
from .dispatcher import Dispatcher
from .ledger import Ledger, Listener
from .looker import Looker
from .notifier_process import NotifierProcess
from .operator_commands import OperatorCommands
from .readiness import Readiness, is_certain
from .recorder import Recorder
from .recovery import Recovery
from .report import LiveReport, Summary, live_report, summarise
from .watch import (
    SourceRenewal,
    Watch,
    keep_call_use_known,
    keep_hosts_known,
    keep_metrics,
    keep_metrics_known,
    look_after_orphans,
)

TRIES_BEFORE_GIVING_UP = 3
DISK_PATIENCE = 5.0
LONGEST_WAIT = 60.0


class Orchestrator:
    """Works off a source with agents on hosts. `run` may be called once; `drain` ends it from outside.

    `store` is the path of the database. Each of `listeners` is called with every event; `on_trouble` with a
    sentence while the store cannot be written, and with "" after that.
    """

    def __init__(
        self,
        source: Source,
        hosts: Sequence[Host],
        store: Path,
        *,
        listeners: Sequence[Listener] = (),
        on_trouble: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> None:
        self._source = GuardedSource(source)
        self._hosts = HostPool(hosts)
        self._store_path = store
        self._listeners = list(listeners)
        self._on_trouble = on_trouble
        self._clock = clock or Clock()
        self._context: Context | None = None
        self._dispatcher: Dispatcher | None = None
        self._looker: Looker | None = None
        self._began = False
        self._draining = asyncio.Event()
        self.dashboard = ""  # where people can watch it; told to whoever asks who has the store

    @classmethod
    def for_workflow(
        cls,
        workflow: Path | str,
        *,
        environ: Mapping[str, str] | None = None,
        env_file: Path | None = None,
        listeners: Sequence[Listener] = (),
        on_trouble: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> Self:
        """For the issues of a WORKFLOW.md, or of the one in a directory, with agents on this machine.

        `environ` is what settings and agents are taken from, our own environment if left out.
        """
        from ..sources.issues import IssueSource

        place, environ = Path(workflow), os.environ if environ is None else environ
        source = IssueSource.open(place / "WORKFLOW.md" if place.is_dir() else place, environ, env_file)
        database = source.config.db_path
        return cls.on_this_machine(
            source, database, environ, listeners=listeners, on_trouble=on_trouble, clock=clock
        )

    @classmethod
    def for_plan(
        cls,
        plan: Path | str,
        *,
        environ: Mapping[str, str] | None = None,
        listeners: Sequence[Listener] = (),
        on_trouble: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> Self:
        """For the tasks of a plan file, with agents on this machine; `run(until_idle=True)` comes to an end."""
        from ..plans.load import load_plan
        from ..sources.plan_tasks import PlanSource

        environ = os.environ if environ is None else environ
        source = PlanSource(load_plan(Path(plan)), environ)
        store = source.plan.store
        return cls.on_this_machine(source, store, environ, listeners=listeners, on_trouble=on_trouble, clock=clock)

    @classmethod
    def on_this_machine(
        cls,
        source: Source,
        store: Path,
        environ: Mapping[str, str],
        *,
        listeners: Sequence[Listener] = (),
        on_trouble: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> Self:
        """The same for a source that is open already."""
        from ..hosts.local_host import LocalHost

        store.parent.mkdir(parents=True, exist_ok=True)
        return cls(
            source, [LocalHost(store, environ)], store, listeners=listeners, on_trouble=on_trouble, clock=clock
        )

    async def run(self, *, until_idle: bool = False) -> Summary:
        """Work until drained, or until nothing is running, due or dispatchable."""
        if self._began:
            raise RuntimeError("An orchestrator runs once: its source and its hosts are closed. Make another one.")
        self._began = True
        prepare()
        source = self._source
        workflow, root = Path(source.name), Path(source.workspace_root)
        is_file = workflow.is_file()  # a source may have any name
        holder = {"workflow": source.name, **({"dashboard": self.dashboard} if self.dashboard else {})}
        async with Store.open(
            self._store_path, holder=holder, root=root, workflow=workflow if is_file else None
        ) as store:
            context = self._context = Context(
                ledger=Ledger(store, self._listeners, self._on_trouble, self._clock.on_calendar),
                clock=self._clock,
                source=source,
                hosts=self._hosts,
                redactor=Redactor(source.secrets),
                fence=secrets.token_hex(8),
                leaving=self._draining,
            )
            try:
                if refusal := source.refusal(context.schedule):
                    raise refusal
                await self._work(context, Root(root), until_idle=until_idle)
            finally:
                await self._close(context)
            if store.is_lost():
                raise await store.lost()
            if context.ledger.gave_up:
                fix = "The next start takes up what was running, as after a crash."
                raise StoreError(f"The service ended with its store unwritten. {context.ledger.trouble}", fix=fix)
            return summarise(context.schedule, drained=self._draining.is_set())

    def drain(self) -> None:
        """Start nothing more, end the agents, keep what is needed to resume them, return from `run`."""
        self._draining.set()

    def look(self) -> None:
        """Look at the source soon, because somebody says that something changed; what it is the look finds out.
        Before there is anything to look with, nothing happens: the first look comes by itself."""
        if self._looker:
            self._looker.ask()

    async def kill_agents(self) -> None:
        """End every process of every run by force. The next start closes their runs as it does after a crash."""
        for host in self._hosts.all():
            await host.kill()

    def report(self) -> LiveReport | None:
        """What is going on now, for a person to look at; None before the store is open."""
        if not (self._context and self._dispatcher):
            return None
        return live_report(self._context, list(self._dispatcher.runs.values()))

    async def _close(self, context: Context) -> None:
        for host in self._hosts.all():
            await host.aclose()
        for source in (*context.earlier, context.source):
            await source.aclose()
        await keep_metrics(context)

    async def _work(self, context: Context, root: Root, *, until_idle: bool) -> None:
        async with anyio.create_task_group() as writing:
            writing.start_soon(context.ledger.write_forever)
            await self._work_off(context, root, until_idle=until_idle)
            # The writer ends last: what ends before it may have something to write, and wait for that.
            await context.ledger.flushed()
            writing.cancel_scope.cancel()

    async def _work_off(self, context: Context, root: Root, *, until_idle: bool) -> None:
        async with anyio.create_task_group() as background:
            self._open(context)
            context.source.remember(context.schedule)
            queues = (Recorder(context), AnswerComments(context))
            for queue in queues:
                background.start_soon(queue.run_forever)
            background.start_soon(NotifierProcess(context, self.dashboard).run_forever)
            await self._hosts.refresh()
            recovery = Recovery(context)
            await self._unless_draining(recovery.run)
            async with anyio.create_task_group() as runs:

                def spawn(run: ActiveRun, charged: Usage | None) -> None:
                    runs.start_soon(self._follow, run, charged)

                dispatcher = self._dispatcher = Dispatcher(context, spawn)
                for run, charged in recovery.attached:
                    dispatcher.follow(run, charged)
                service = _Service(context, dispatcher, root, self.drain)
                self._looker = service.looker
                for step in recovery.postponed:
                    runs.start_soon(step)
                service.start(background, until_idle=until_idle)
                background.start_soon(self._stop_when_asked, context, service)
                await self._dispatch_until_done(context, service, until_idle=until_idle)
                service.looker.stop()
                await dispatcher.stop_all()
            for queue in queues:
                await queue.finish()
            background.cancel_scope.cancel()

    async def _unless_draining(self, step: Callable[[], Awaitable[None]]) -> None:
        """Given up where we are asked to stop meanwhile: the next start takes it up as this one did."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._cancel_when_draining, tasks.cancel_scope)
            await step()
            tasks.cancel_scope.cancel()

    async def _cancel_when_draining(self, scope: anyio.CancelScope) -> None:
        await self._draining.wait()
        scope.cancel()

    def _open(self, context: Context) -> None:
        now, store = self._clock.now(), self._store_path
        context.ledger.post(
            ev.Opened(at=now, pid=os.getpid(), version=__version__, workflow=context.source.name),
            ev.PolicySet(at=now, policy=context.source.policy),
            *(ev.Noted(at=now, level="warning", message=sentence) for sentence in context.ledger.store.unreadable),
        )
        if not context.schedule.issues and (rescued := sorted(store.parent.glob(f"{store.name}.rescued-*"))):
            detail = f"to go on with it, stop the service and move it to {store}; to forget it, remove it"
            context.note("warning", f"{rescued[-1]} is what an earlier service saved of a lost store", detail)

    async def _dispatch_until_done(self, context: Context, service: _Service, *, until_idle: bool) -> None:
        confirmed_by = 0  # the look that has to show that there is nothing left to do; 0: not asked for
        while not self._draining.is_set():
            context.wake = anyio.Event()
            await service.commands.look()
            await service.commands.obey(service.dispatcher.runs)
            service.readiness.look()
            known = service.looker.known and not context.limit.left()  # to start a run its issue is asked for
            await service.dispatcher.dispatch(candidates_known=known)
            if until_idle and not service.is_busy():
                if service.looker.trouble and service.looks_in_vain():
                    raise service.looker.trouble
                if 0 < confirmed_by <= service.looker.done and not service.looker.trouble:
                    return
                confirmed_by = confirmed_by or service.looker.ask()
            else:
                confirmed_by = 0
            with anyio.move_on_after(self._until_next(context, service.dispatcher)):
                await context.wake.wait()

    def _until_next(self, context: Context, dispatcher: Dispatcher) -> float:
        """Seconds to the next moment at which time alone can change a decision."""
        schedule, now = context.schedule, self._clock.now()
        moments = [now + LONGEST_WAIT]
        moments += [waiting.retry.due_at for waiting in schedule.waiting.values() if waiting.retry.due_at > now]
        moments += [pause.until for pause in schedule.pauses.values() if pause.until > now]
        moments += [context.limit.until] if context.limit.until > now else []
        if late := next_deadline(dispatcher.liveness(), schedule.policy):
            moments.append(late)
        return max(min(moments) - now, 0.0)

    async def _follow(self, run: ActiveRun, charged: Usage | None) -> None:
        await run.go(charged=charged)
        assert self._dispatcher and self._context
        self._dispatcher.run_ended(run)
        self._context.wake.set()

    async def _stop_when_asked(self, context: Context, service: _Service) -> None:
        """Whoever asked us to stop may be about to signal the agents too, and waits for no tracker."""
        await self._draining.wait()
        context.wake.set()
        service.looker.stop()
        with anyio.move_on_after(DISK_PATIENCE):
            await service.dispatcher.stop_all()
            return
        # A disk that refuses must not keep agents at work that somebody wants to end.
        context.ledger.give_up()
        await service.dispatcher.stop_all()


class _Service:
    """Everything that goes on beside the decisions, each at its own pace."""

    def __init__(self, context: Context, dispatcher: Dispatcher, root: Root, drain: Callable[[], None]) -> None:
        self._context = context
        self.dispatcher = dispatcher
        self.looker = Looker(context, root.verify)
        self.readiness = Readiness(context)
        self.commands = OperatorCommands(context, self.looker.ask)
        self.cleanup = Cleanup(context)
        self.renewal = SourceRenewal(context, self.looker, dispatcher, self.cleanup)
        self.watch = Watch(context, self.looker, self.readiness, self.commands, self.renewal, drain)

    def start(self, tasks: TaskGroup, *, until_idle: bool) -> None:
        tasks.start_soon(partial(self.looker.run_forever, hurried=until_idle))
        tasks.start_soon(self.commands.look_up_forever)
        tasks.start_soon(self.cleanup.run_forever)
        tasks.start_soon(self.watch.run_forever)
        tasks.start_soon(keep_hosts_known, self._context)
        tasks.start_soon(keep_call_use_known, self._context, self.looker)
        tasks.start_soon(look_after_orphans, self._context)
        tasks.start_soon(keep_metrics_known, self._context)
        tasks.start_soon(self._context.metrics.measure_lag)

    def looks_in_vain(self) -> bool:
        return self.looker.failures >= TRIES_BEFORE_GIVING_UP

    def is_busy(self) -> bool:
        """Runs that nobody follows are those whose settlement a limit of the tracker holds up since the start. The
        end of a limit is waited for, unless another one has followed each time."""
        schedule, limit = self._context.schedule, self._context.limit
        due = schedule.waiting and not self.looker.trouble and not is_certain(schedule)
        held = limit.left() and not self.looks_in_vain()
        busy = self.cleanup.busy or self.commands.is_busy
        return bool(self.dispatcher.runs or schedule.running or due or held or busy)
