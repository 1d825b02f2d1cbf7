"""Runs as child processes of this process: each is one task here, and what it says waits in memory.

Whatever this process leaves behind when it dies is found by `sweep`, and read by `remains`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from anyio import to_thread

from ..agents.agent import Agent, AgentSettings
from ..errors import SortieError, WorkspaceError
from ..plugins import load_agent
from ..process.identity import ProcessIdentity
from ..process.sweep import end_orphans
from ..protocol.session_files import remove_credentials
from ..protocol.status_file import read_signal
from ..runs.channel import Channel
from ..runs.executor import GRACE, Executor, RunPaths
from ..runs.messages import AnyAnswer, Numbered
from ..runs.run_log import archive_directory, logs_directory
from ..runs.run_workspace import place_of
from ..runs.spec import AgentSpec, RunSpec
from ..runs.tool_log import ToolLog
from ..tools.broker_server import remove_socket
from ..workspace.directory import open_existing
from .host import (
    DuplicateRun,
    HostInfo,
    Leftover,
    OpenRun,
    Remains,
    Removal,
    Removed,
    RunNotFound,
    RunState,
    nobody_minds,
)
from .local_workspaces import LocalWorkspaces

NAME = "local"

# Settings change now and then; a run that began with older ones has its agent still.
_AGENTS_KEPT = 32
_ENDED_KEPT = 10_000


class _Run(NamedTuple):
    fence: str
    spec: RunSpec
    channel: Channel
    executor: Executor
    task: asyncio.Task[None]


class LocalHost:
    """Implements `Host`. A run is known until its last message was dealt with.

    Logs, archives and sockets lie beside the `store`. `capacity` is how many runs it takes at once, for the sake of
    other hosts beside it.
    """

    def __init__(
        self,
        store: Path,
        environ: Mapping[str, str] | None = None,
        *,
        name: str = NAME,
        capacity: int | None = None,
    ) -> None:
        self._name = name
        self._store = store
        self._environ = os.environ if environ is None else environ
        self._capacity = capacity
        self._runs: dict[str, _Run] = {}
        self._ended: dict[str, str] = {}
        self._agents: dict[bytes, Agent] = {}
        self._stores: set[str] = set()
        self._workspaces = LocalWorkspaces(self._environ, archive_directory(store))

    async def hosts(self) -> Sequence[HostInfo]:
        return [HostInfo(name=self._name, capacity=self._capacity)]

    # -- runs -------------------------------------------------------------------------------------------------

    async def start(self, run_id: str, fence: str, spec: RunSpec, host: str = NAME) -> None:
        if host != self._name:
            raise SortieError(f"There is no host {host} here; this one is {self._name}.")
        known = self._runs[run_id].fence if run_id in self._runs else self._ended.get(run_id)
        if known is not None and known != fence:
            raise DuplicateRun(f"The run {run_id} was started already.")
        if known is not None:
            return
        channel = Channel(on_read=partial(self._forget, run_id))
        executor = Executor(
            spec,
            self._agent(spec.agent),
            channel,
            environ=self._environ,
            paths=RunPaths(self._store, run_id),
            alone=self._workspaces.used_by_run(place_of(spec)),
        )
        self._stores.add(spec.store_id)
        task = asyncio.create_task(executor.execute(), name=f"run {run_id}")
        self._runs[run_id] = _Run(fence, spec, channel, executor, task)

    async def attach(self, run_id: str) -> None:
        self._run(run_id)

    def events(self, run_id: str, after: int = 0) -> AsyncGenerator[Numbered]:
        return self._run(run_id).channel.messages(after)

    async def answer(self, run_id: str, number: int, answer: AnyAnswer) -> None:
        if run_id in self._runs:
            self._runs[run_id].channel.answer(number, answer)

    async def cancel(self, run_id: str, grace: float = GRACE) -> None:
        if run_id in self._runs:
            run = self._runs[run_id]
            run.executor.stop(grace)
            await asyncio.wait([run.task])

    async def status(self, run_id: str) -> RunState:
        if run_id in self._runs and not self._runs[run_id].channel.ended:
            return RunState(state="running")
        known = run_id in self._runs or run_id in self._ended
        return RunState(state="ended" if known else "unknown")

    async def kill(self) -> None:
        for store_id in self._stores:
            await end_orphans(store_id, [], grace=0.0)

    async def aclose(self) -> None:
        tasks = [run.task for run in self._runs.values()]
        for run in self._runs.values():
            run.executor.stop()
        if tasks:
            await asyncio.wait(tasks)

    def _run(self, run_id: str) -> _Run:
        if run_id not in self._runs:
            raise RunNotFound(f"There is no run {run_id} here.")
        return self._runs[run_id]

    def _forget(self, run_id: str) -> None:
        """Its last message was dealt with: so was everything that its tools wrote."""
        self._ended[run_id] = self._runs.pop(run_id).fence
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]
        ToolLog(RunPaths(self._store, run_id).tool_log).remove()

    def _agent(self, spec: AgentSpec) -> Agent:
        """One for all runs with the same settings: some programs must not be started twice for the first time."""
        key = msgspec.json.encode(spec)
        if key not in self._agents:
            settings = AgentSettings(
                kind=spec.kind,
                command=spec.command,
                options=spec.options,
                base=Path(spec.base),
                read_timeout=spec.read_timeout,
            )
            self._agents[key] = load_agent(spec.kind).from_settings(settings)
            if len(self._agents) > _AGENTS_KEPT:
                del self._agents[next(iter(self._agents))]
        return self._agents[key]

    # -- after a crash ----------------------------------------------------------------------------------------

    async def sweep(
        self, store_id: str, runs: Sequence[OpenRun], root: str = "", attached: Collection[str] = ()
    ) -> Sequence[Leftover]:
        for run in runs:
            await self.cancel(run.run_id)
        known = [
            ProcessIdentity(run.pid, run.start_ticks, run.boot_id)
            for run in runs
            if run.pid is not None and run.start_ticks is not None and run.boot_id is not None
        ]
        spared = {*attached, *self._runs} - {run.run_id for run in runs}
        ended = await end_orphans(store_id, known, root=Path(root).resolve() if root else None, spared=spared)
        await to_thread.run_sync(self._remove_tool_logs, {run.run_id for run in runs})
        return [Leftover(pid=one.pid, run_id=one.run_id) for one in ended]

    def _remove_tool_logs(self, still_open: set[str]) -> None:
        """Those of runs that are over: what they say was dealt with."""
        for path in logs_directory(self._store).glob("*.tools"):
            if path.stem not in still_open and path.stem not in self._runs:
                ToolLog(path).remove()

    async def remains(self, run: OpenRun) -> Remains:
        return await to_thread.run_sync(self._remains, run)

    def _remains(self, run: OpenRun) -> Remains:
        paths = RunPaths(self._store, run.run_id)
        remove_socket(paths.broker_socket)
        lines = tuple(ToolLog(paths.tool_log).lines())
        if not run.workspace:
            return Remains(tool_lines=lines)
        try:
            with open_existing(Path(run.workspace)) as workspace:
                workspace.verify()
                if run.inode not in (0, workspace.inode):
                    return Remains(tool_lines=lines)
                remove_credentials(workspace.fd)
                signal = read_signal(workspace.fd, run.signal)
        except WorkspaceError:
            return Remains(tool_lines=lines)
        return Remains(
            in_place=True,
            signal=signal.token or "",
            reason=signal.reason,
            recoverable=signal.recoverable,
            tool_lines=lines,
        )

    # -- workspaces that nobody needs -------------------------------------------------------------------------

    async def remove_workspace(
        self, removal: Removal, confirm: Callable[[], Awaitable[bool]] = nobody_minds
    ) -> Removed:
        self._stores.add(removal.store_id)
        return await self._workspaces.remove(removal, confirm)

    async def tidy(self, root: str, keep_days: float) -> Sequence[str]:
        return await self._workspaces.tidy(root, keep_days)
