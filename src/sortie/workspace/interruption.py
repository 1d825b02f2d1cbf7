"""Long work on files in a thread that gives up when nobody waits for it any more.

A thread cannot be ended from outside, so the work asks at each of its steps. Whoever cancels waits for no more than
the step in progress, and finds what an interrupted step leaves, not what a running one is about to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import lowlevel, to_thread

from ..protocol.trees import Check

T = TypeVar("T")


class Interrupted(Exception):
    """Raised inside the work, for its own cleaning up; nobody else sees it."""


async def in_thread(work: Callable[[Check], T]) -> T:
    """What `work` answers. It is given a check to call before each of its steps."""
    stopped = threading.Event()
    answers: list[T] = []
    errors: list[Exception] = []

    def check() -> None:
        if stopped.is_set():
            raise Interrupted

    def run() -> None:
        try:
            answers.append(work(check))
        except Exception as error:  # a task group would wrap it
            errors.append(error)

    async def notice() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(notice)
        await to_thread.run_sync(run)
        tasks.cancel_scope.cancel()
    if errors:
        if isinstance(errors[0], Interrupted):
            await lowlevel.checkpoint()  # raises the cancellation that was its cause
        raise errors[0]
    return answers[0]
