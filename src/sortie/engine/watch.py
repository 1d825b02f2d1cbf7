"""Background checks of the service: changed files, commands, a lost store, lost hosts, orphaned processes."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import anyio

from ..core import events as ev
from ..core.model import like
from ..core.redact import Redactor
from ..errors import ConfigurationError, StoreError, TrackerError
from ..file_watch import FileWatch
from ..process.orphans import Orphan, orphan_tracker
from ..store.call_use import CallFigures
from .cleanup import Cleanup
from .context import Context
from .dispatcher import Dispatcher
from .looker import Looker
from .operator_commands import OperatorCommands
from .readiness import Readiness

CHECK_EVERY = 0.5
HOSTS_EVERY = 5.0
ORPHANS_EVERY = 5.0
CLOSING_DEADLINE = 5.0
CALL_USE_EVERY = 5.0
CALL_USE_IS_CURRENT_FOR = 30.0
FIGURES_EVERY = 5.0

# An agent that leaves behind thousands of processes must not fill the store.
ORPHANS_NAMED = 5


class SourceRenewal:
    """The source in force: exchanged when its settings change; an earlier one is closed when nobody uses it."""

    def __init__(self, context: Context, looker: Looker, dispatcher: Dispatcher, cleanup: Cleanup) -> None:
        self._context = context
        self._looker = looker
        self._dispatcher = dispatcher
        self._cleanup = cleanup

    def renew(self) -> None:
        """Take over changed settings; runs in progress keep what they began with."""
        context = self._context
        renewal = context.source.renew()
        if renewal is None:
            return
        if renewal.source is not context.source:
            context.earlier.append(context.source)
            context.source = renewal.source
            context.limit.forget()
            context.redactor = Redactor(renewal.source.secrets)
            context.ledger.post(ev.PolicySet(at=context.clock.now(), policy=renewal.source.policy))
            self._looker.ask()
        for level, message, detail in renewal.notes:
            context.note(level, message, detail)
        context.wake.set()

    async def close_earlier(self) -> None:
        context, runs = self._context, self._dispatcher.runs
        # Runs without a task that follows them are settled with the source that was in force when that began.
        if not context.earlier or self._cleanup.busy or context.schedule.running.keys() - runs.keys():
            return
        in_use = [context.source, self._looker.asking, *(run.source for run in runs.values())]
        for source in [one for one in context.earlier if not any(one is used for used in in_use)]:
            context.earlier.remove(source)
            context.metrics.collect([source])
            try:
                with anyio.fail_after(CLOSING_DEADLINE):
                    await source.aclose()
            except (TrackerError, TimeoutError) as error:
                message = "a tracker of an earlier workflow could not be closed"
                self._context.note("warning", message, str(error))


class Watch:
    def __init__(
        self,
        context: Context,
        looker: Looker,
        readiness: Readiness,
        commands: OperatorCommands,
        renewal: SourceRenewal,
        drain: Callable[[], None],
    ) -> None:
        self._context = context
        self._looker = looker
        self._readiness = readiness
        self._commands = commands
        self._renewal = renewal
        self._drain = drain
        self._said_lost = False

    async def run_forever(self) -> None:
        while True:
            source = self._context.source
            async with FileWatch(source.watched_files, self._file_changed):
                self._renewal.renew()  # what changed before anybody watched
                while self._context.source is source:
                    await anyio.sleep(CHECK_EVERY)
                    await self._check()

    def _file_changed(self) -> None:
        self._renewal.renew()
        self._looker.ask()

    async def _check(self) -> None:
        self._notice_loss()
        await self._renewal.close_earlier()
        if self._context.leaving.is_set():
            await self._commands.turn_away()
        elif self._readiness.look() or await self._commands.look():
            self._context.wake.set()

    def _notice_loss(self) -> None:
        """What happens after the store was lost is known to nobody later: the less, the better."""
        store = self._context.ledger.store
        if not self._said_lost and store.is_lost():
            self._said_lost = True
            message = f"{store.loss}: nothing more starts, the agents are being ended"
            self._context.note("error", message)
            self._drain()


async def keep_call_use_known(context: Context, looker: Looker) -> None:
    """Commands read nothing but the store, so it has what the server of the tracker allows, as of the last look."""
    known, told_at, looks = None, -math.inf, 0
    while True:
        looks = await looker.looked(looks)
        use, now = context.source.call_use(), anyio.current_time()
        if use is None or (use == known and now - told_at < CALL_USE_IS_CURRENT_FOR):
            continue
        known, told_at = use, now
        with suppress(StoreError):  # the next look has newer ones
            as_of = context.clock.on_calendar(context.clock.now())
            await context.ledger.store.keep_call_figures(like(CallFigures, use, as_of=as_of))
        await anyio.sleep(CALL_USE_EVERY)


async def keep_metrics(context: Context) -> None:
    """What was counted and follows from no event, added to the store."""
    context.metrics.collect([*context.earlier, context.source])
    await context.metrics.keep(context.ledger.store)


async def keep_metrics_known(context: Context) -> None:
    while True:
        await anyio.sleep(FIGURES_EVERY)
        await keep_metrics(context)


async def keep_hosts_known(context: Context) -> None:
    """Machines come and go; one that was lost takes runs again when it is back."""
    while True:
        await anyio.sleep(HOSTS_EVERY)
        try:
            if await context.hosts.refresh():
                context.wake.set()
        except ConfigurationError as error:
            context.note("warning", "the hosts stay as they were", str(error))


async def look_after_orphans(context: Context) -> None:
    """Orphans of running agents: zombies are reaped, and processes with an unknown owner are logged."""
    in_doubt: set[tuple[int, int]] = set()
    while True:
        await anyio.sleep(ORPHANS_EVERY)
        looked = await orphan_tracker.check()
        _tell_of(context, "ended what runs that are over had left behind", looked.ended)
        unknown = [one for one in looked.in_doubt if (one.pid, one.start_ticks) not in in_doubt]
        _tell_of(context, "nobody knows whose this is; it is ended with the last run that can own it", unknown)
        in_doubt = {(one.pid, one.start_ticks) for one in looked.in_doubt}


def _tell_of(context: Context, message: str, orphans: list[Orphan]) -> None:
    if not orphans:
        return
    named = [f"process {one.pid}: {one.command}" for one in orphans[:ORPHANS_NAMED]]
    if len(orphans) > ORPHANS_NAMED:
        named.append(f"and {len(orphans) - ORPHANS_NAMED} more")
    context.note("warning", message, "; ".join(named))
