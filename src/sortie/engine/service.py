"""An orchestrator as a process of its own: fit to own children, and ended by signals the way people expect."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskStatus

from ..process.orphans import orphan_tracker
from .orchestrator import Orchestrator
from .report import Summary

log = logging.getLogger(__name__)

# A terminal, a shell and `timeout` may each pass on what was one wish of one person.
ASKED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_WISH = 0.5


def _nothing() -> None:
    pass


def serve(
    orchestrator: Orchestrator,
    *,
    until_idle: bool = False,
    on_drain: Callable[[], object] = _nothing,
    before_exit: Callable[[], object] = _nothing,
    beside: Sequence[Callable[[], Awaitable[None]]] = (),
) -> Summary:
    """Run it to its end. The first SIGINT, SIGTERM or SIGHUP drains, the next ends at once; agents survive neither.

    The process is the orchestrator's alone: no child that came to it in another session outlives it. Signals within
    half a second are one. `on_drain` is called when the next one would count, `before_exit` before it takes effect,
    for whoever has a terminal to put in order. What goes on `beside` it is cancelled when it has ended; that one of
    these fails is told to `logging`, and no reason to end.
    """
    with orphan_tracker.sole_parent():
        return anyio.run(_serve, orchestrator, until_idle, on_drain, before_exit, beside)


async def _serve(
    orchestrator: Orchestrator,
    until_idle: bool,
    on_drain: Callable[[], object],
    before_exit: Callable[[], object],
    beside: Sequence[Callable[[], Awaitable[None]]],
) -> Summary:
    async with anyio.create_task_group() as tasks:
        await tasks.start(_obey_signals, orchestrator, on_drain, before_exit)
        for one in beside:
            tasks.start_soon(_unharmed_by, one)
        try:
            summary = await orchestrator.run(until_idle=until_idle)
        finally:
            with anyio.CancelScope(shield=True):
                await orphan_tracker.end_all()
        tasks.cancel_scope.cancel()
    return summary


async def _unharmed_by(one: Callable[[], Awaitable[None]]) -> None:
    try:
        await one()
    except Exception:
        log.exception("something beside the service failed; the service goes on without it")


async def _obey_signals(
    orchestrator: Orchestrator,
    on_drain: Callable[[], object],
    before_exit: Callable[[], object],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    # Under `nohup`, or as a background job of a script, somebody has decided that a signal does not concern us.
    heard = [one for one in ASKED_BY if signal.getsignal(one) is not signal.SIG_IGN]
    with anyio.open_signal_receiver(*heard) as signals:
        task_status.started()
        await anext(signals)
        orchestrator.drain()
        with anyio.move_on_after(ONE_WISH):
            async for _ in signals:
                pass
        on_drain()
        await anext(signals)
        await orchestrator.kill_agents()
        await orphan_tracker.end_all(grace=0.0)
        before_exit()
        # Hooks and tracker calls may still have a minute to go. All that matters is on disk, and the next start
        # takes it up as it does after any crash.
        os._exit(1)
