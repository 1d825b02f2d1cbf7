"""A host without processes and without workspaces, for tests of what uses a host: its runs tell what a test says.

    async def blocked(spec):
        yield TurnAsked(turn=1)
        yield TurnCompleted(turn=1, signal="blocked")
        yield Ended(outcome=Outcome(status="succeeded", turns=1, soft_stop="blocked"))

    host = FakeHost(blocked)

A question is yielded like any other message, and its answer is what the `yield` gives back.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from pathlib import Path

from ..core.conclude import Outcome
from ..hosts.host import (
    DuplicateRun,
    HostInfo,
    Leftover,
    OpenRun,
    Remains,
    Removal,
    RemovalRefused,
    Removed,
    RunNotFound,
    RunState,
    nobody_minds,
)
from ..runs.channel import Channel
from ..runs.messages import (
    QUESTIONS,
    AnyAnswer,
    AnyMessage,
    Ended,
    Numbered,
    Stop,
    TurnAsked,
    TurnCompleted,
    WorkspaceReady,
)
from ..runs.spec import RunSpec

Play = Callable[[RunSpec], AsyncGenerator[AnyMessage, AnyAnswer | None]]


async def one_turn(spec: RunSpec) -> AsyncGenerator[AnyMessage, AnyAnswer | None]:
    """A run of one turn, after which the agent asks for a review."""
    yield WorkspaceReady(key=spec.workspace.key, path=str(Path(spec.workspace.root) / spec.workspace.key))
    yield TurnAsked(turn=1)
    yield TurnCompleted(turn=1, signal="needs-human-review")
    yield Ended(outcome=Outcome(status="succeeded", turns=1, soft_stop="needs-human-review"))


class FakeHost:
    """Implements `Host`. `specs` and `answers` have what each run was started with and told, by its id; `removals`
    has the workspaces that were to be removed.

    A run whose play is over without `Ended` has succeeded. One that is cancelled, or whose question is answered
    with a `Stop` that has a cause, ends as cancelled.
    """

    def __init__(self, play: Play = one_turn, *, name: str = "fake", capacity: int | None = None) -> None:
        self.specs: dict[str, RunSpec] = {}
        self.answers: defaultdict[str, list[AnyAnswer]] = defaultdict(list)
        self.removals: list[Removal] = []
        self._play = play
        self._info = HostInfo(name=name, capacity=capacity)
        self._fences: dict[str, str] = {}
        self._channels: dict[str, Channel] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def hosts(self) -> Sequence[HostInfo]:
        return [self._info]

    async def start(self, run_id: str, fence: str, spec: RunSpec, host: str = "fake") -> None:  # noqa: ARG002
        if self._fences.setdefault(run_id, fence) != fence:
            raise DuplicateRun(f"The run {run_id} was started already.")
        if run_id not in self.specs:
            self.specs[run_id] = spec
            self._channels[run_id] = Channel()
            self._tasks[run_id] = asyncio.create_task(self._tell(run_id), name=f"run {run_id}")

    async def _tell(self, run_id: str) -> None:
        channel, turns = self._channels[run_id], 0
        end = Ended(outcome=Outcome(status="cancelled", turns=0))
        try:
            async with aclosing(self._play(self.specs[run_id])) as play:
                message = await anext(play)
                while not isinstance(message, Ended):
                    answer = await self._said(run_id, message)
                    if isinstance(answer, Stop) and answer.cause:
                        end = _cancelled(turns, answer)
                        return
                    turns = message.turn if isinstance(message, TurnCompleted) else turns
                    message = await play.asend(answer)
                end = message
        except StopAsyncIteration:
            end = Ended(outcome=Outcome(status="succeeded", turns=turns))
        except asyncio.CancelledError:
            end = _cancelled(turns, Stop())
        finally:
            channel.tell(end)

    async def _said(self, run_id: str, message: AnyMessage) -> AnyAnswer | None:
        if not isinstance(message, QUESTIONS):
            self._channels[run_id].tell(message)
            return None
        answer = await self._channels[run_id].ask(message)
        self.answers[run_id].append(answer)
        return answer

    async def attach(self, run_id: str) -> None:
        self._channel(run_id)

    def events(self, run_id: str, after: int = 0) -> AsyncGenerator[Numbered]:
        return self._channel(run_id).messages(after)

    async def answer(self, run_id: str, number: int, answer: AnyAnswer) -> None:
        if run_id in self._channels:
            self._channels[run_id].answer(number, answer)

    async def cancel(self, run_id: str, grace: float = 5.0) -> None:  # noqa: ARG002 - nobody has to be asked
        if run_id in self._tasks:
            # One that has not begun yet would end without a word.
            await asyncio.sleep(0)
            self._tasks[run_id].cancel()
            await asyncio.wait([self._tasks[run_id]])

    async def status(self, run_id: str) -> RunState:
        if run_id not in self._channels:
            return RunState(state="unknown")
        return RunState(state="ended" if self._channels[run_id].ended else "running")

    async def sweep(
        self,
        store_id: str,  # noqa: ARG002
        runs: Sequence[OpenRun],
        root: str = "",  # noqa: ARG002
        attached: Collection[str] = (),  # noqa: ARG002
    ) -> Sequence[Leftover]:
        for run in runs:
            await self.cancel(run.run_id)
        return []

    async def remains(self, run: OpenRun) -> Remains:  # noqa: ARG002 - nothing is left of any
        return Remains()

    async def remove_workspace(
        self, removal: Removal, confirm: Callable[[], Awaitable[bool]] = nobody_minds
    ) -> Removed:
        if not await confirm():
            raise RemovalRefused(f"{removal.issue.identifier} is not done any more.")
        self.removals.append(removal)
        return Removed()

    async def tidy(self, root: str, keep_days: float) -> Sequence[str]:  # noqa: ARG002 - there are no archives
        return []

    async def kill(self) -> None:
        """There is no process."""

    async def aclose(self) -> None:
        for run_id in self._tasks:
            await self.cancel(run_id)

    def _channel(self, run_id: str) -> Channel:
        if run_id not in self._channels:
            raise RunNotFound(f"There is no run {run_id} here.")
        return self._channels[run_id]


def _cancelled(turns: int, stop: Stop) -> Ended:
    return Ended(outcome=Outcome(status="cancelled", turns=turns, stop=stop.cause, error=stop.detail))
