"""An orchestrator as a process of its own: fit to own children, and ended by signals the way people expect."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

from ..process.orphans import household
from ..process.platform import prepare
from .glance import Summary
from .orchestrator import Orchestrator


def serve(
    orchestrator: Orchestrator, *, until_idle: bool, before_exit: Callable[[], object] = lambda: None
) -> Summary:
    """Run it to its end. The first SIGINT, SIGTERM or SIGHUP drains, the next ends at once; agents survive neither.

    The process is the orchestrator's alone: no child that came to it in another session outlives it.
    `before_exit` is called before the second one takes effect, for whoever has a terminal to put in order.
    """
    prepare()
    with household.sole_parent():
        return anyio.run(_serve, orchestrator, until_idle, before_exit)


async def _serve(orchestrator: Orchestrator, until_idle: bool, before_exit: Callable[[], object]) -> Summary:
    async with anyio.create_task_group() as tasks:
        await tasks.start(_obey_signals, orchestrator, before_exit)
        try:
            summary = await orchestrator.run(until_idle=until_idle)
        finally:
            with anyio.CancelScope(shield=True):
                await household.end_all()
        tasks.cancel_scope.cancel()
    return summary


async def _obey_signals(
    orchestrator: Orchestrator,
    before_exit: Callable[[], object],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        asked = False
        async for _ in signals:
            if asked:
                await orchestrator.kill_agents()
                await household.end_all(grace=0.0)
                before_exit()
                # Hooks and tracker calls may still have a minute to go. All that matters is on disk, and the next
                # start takes it up as it does after any crash.
                os._exit(1)
            orchestrator.drain()
            asked = True
