"""A host that keeps the promises of its Protocol: it answers in time, and fails as a host that is lost does.

Hosts come from other packages, and from other machines. A defect or a hanging connection of one must cost its runs,
not the service and the runs of the others.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import TypeVar

import anyio

from ..runs.messages import AnyAnswer, Numbered
from ..runs.spec import RunSpec
from .host import (
    Host,
    HostInfo,
    Leftover,
    OpenRun,
    Remains,
    Removal,
    Removed,
    RunLost,
    RunNotFound,
    RunState,
    nobody_minds,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

DEADLINE = 60.0
KILL_DEADLINE = 10.0


class GuardedHost:
    """Implements `Host`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._is_silent = False

    async def hosts(self) -> Sequence[HostInfo]:
        """None while it cannot be asked, which is said once."""
        try:
            found = await _in_time("hosts", self._host.hosts())
        except RunLost as error:
            if not self._is_silent:
                log.warning("a host cannot be asked for its machines: %s", error)
            self._is_silent = True
            return ()
        self._is_silent = False
        return found

    async def start(self, run_id: str, fence: str, spec: RunSpec, host: str) -> None:
        with anyio.fail_after(DEADLINE):
            await self._host.start(run_id, fence, spec, host)

    async def attach(self, run_id: str) -> None:
        await _in_time("attach", self._host.attach(run_id))

    def events(self, run_id: str, after: int = 0) -> AsyncGenerator[Numbered]:
        return self._host.events(run_id, after)

    async def answer(self, run_id: str, number: int, answer: AnyAnswer) -> None:
        await _in_time("answer", self._host.answer(run_id, number, answer))

    async def cancel(self, run_id: str, grace: float = 5.0) -> None:
        await _logged("cancel", self._host.cancel(run_id, grace), grace + DEADLINE)

    async def status(self, run_id: str) -> RunState:
        try:
            return await _in_time("status", self._host.status(run_id))
        except RunLost as error:
            return RunState(state="lost", reason=str(error))

    async def sweep(
        self, store_id: str, runs: Sequence[OpenRun], root: str = "", attached: Collection[str] = ()
    ) -> Sequence[Leftover]:
        return await _in_time("sweep", self._host.sweep(store_id, runs, root, attached))

    async def remains(self, run: OpenRun) -> Remains:
        return await _in_time("remains", self._host.remains(run))

    async def remove_workspace(
        self, removal: Removal, confirm: Callable[[], Awaitable[bool]] = nobody_minds
    ) -> Removed:
        return await self._host.remove_workspace(removal, confirm)

    async def tidy(self, root: str, keep_days: float) -> Sequence[str]:
        return await self._host.tidy(root, keep_days)

    async def kill(self) -> None:
        await _logged("kill", self._host.kill(), KILL_DEADLINE)

    async def aclose(self) -> None:
        await _logged("aclose", self._host.aclose(), DEADLINE)


async def _in_time(what: str, call: Awaitable[T]) -> T:
    """The answer; `RunLost` where there is none in time, or another failure than those of a host."""
    try:
        with anyio.fail_after(DEADLINE):
            return await call
    except (RunLost, RunNotFound):
        raise
    except TimeoutError:
        raise RunLost(f"The host did not answer `{what}` within {DEADLINE:g} s.") from None
    except Exception as error:
        raise RunLost(f"The host failed in `{what}`: {type(error).__name__}: {error}.") from error


async def _logged(what: str, call: Awaitable[None], deadline: float) -> None:
    """What has to be gone through with whatever the host makes of it."""
    try:
        with anyio.fail_after(deadline):
            await call
    except TimeoutError:
        log.warning("a host did not answer `%s` within %g s", what, deadline)
    except Exception:
        log.exception("a host failed in `%s`", what)
