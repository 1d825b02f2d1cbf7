"""A host in a process of its own, which lives on when its client goes: how a host far away behaves, in small.

This is the client; `remote_worker` is the other end. Each call is one connection to the Unix socket of the worker,
with a frame of JSON on each line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeVar

import anyio
import msgspec
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..errors import SortieError, WorkspaceError
from ..hosts.host import (
    DuplicateRun,
    HostInfo,
    Leftover,
    OpenRun,
    Remains,
    Removal,
    RemovalRefused,
    Removed,
    RunLost,
    RunNotFound,
    RunState,
    nobody_minds,
)
from ..runs.messages import QUESTIONS, AnyAnswer, Ended, Numbered, decode_message, encode
from ..runs.spec import RunSpec
from ..tools.broker_client import short_path

NAME = "worker"
READY = b"ready"
LOST_AFTER = 5.0

ACKNOWLEDGE_EVERY = 50

_FRAME_LIMIT = 64 * 1024 * 1024
_ERRORS: dict[str, type[SortieError]] = {
    kind.__name__: kind for kind in (DuplicateRun, RunNotFound, RunLost, RemovalRefused, WorkspaceError)
}


T = TypeVar("T")


class Call(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client asks; which fields count depends on the name."""

    name: str
    run_id: str = ""
    fence: str = ""
    spec: RunSpec | None = None
    number: int = 0
    answer: AnyAnswer | None = None
    grace: float = 0.0
    store_id: str = ""
    runs: tuple[OpenRun, ...] = ()
    root: str = ""
    attached: tuple[str, ...] = ()
    removal: Removal | None = None
    keep_days: float = 0.0


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`beat` says nothing but that the worker lives; `confirm` wants an answer."""

    kind: Literal["value", "message", "end", "error", "beat", "confirm"]
    value: Raw = Raw(b"null")
    error: str = ""


class Line:
    """Both ends of a connection: frames, one on each line."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._buffer = BufferedByteReceiveStream(stream)
        self._sending = anyio.Lock()

    async def send(self, frame: object) -> None:
        data = encode(frame)
        async with self._sending:
            await self._stream.send(data + b"\n")

    async def receive(self) -> bytes:
        return await self._buffer.receive_until(b"\n", _FRAME_LIMIT)


GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class RemoteHost:
    """The client; implements `Host`. Nothing is asked of the worker before the first call."""

    def __init__(self, directory: Path, capacity: int | None = None, *, name: str = NAME) -> None:
        self._socket = directory / "worker.sock"
        self._capacity = capacity
        self._name = name

    async def hosts(self) -> Sequence[HostInfo]:
        try:
            found = await self._ask(Call(name="hosts"), tuple[HostInfo, ...])
            return [replace(info, name=self._name, capacity=self._capacity) for info in found]
        except RunLost:
            return []

    async def start(self, run_id: str, fence: str, spec: RunSpec, host: str = NAME) -> None:
        if host != self._name:
            raise SortieError(f"There is no host {host} here; this one is {self._name}.")
        await self._ask(Call(name="start", run_id=run_id, fence=fence, spec=spec), type(None))

    async def attach(self, run_id: str) -> None:
        await self._ask(Call(name="attach", run_id=run_id), type(None))

    async def events(self, run_id: str, after: int = 0) -> AsyncGenerator[Numbered]:
        async with self._connected() as line:
            await _say(line, Call(name="events", run_id=run_id, number=after))
            while True:
                reply = await _reply(line)
                if reply.kind == "end":
                    return
                numbered = decode_message(reply.value)
                yield numbered
                if numbered.number % ACKNOWLEDGE_EVERY == 0 or isinstance(numbered.message, (*QUESTIONS, Ended)):
                    await _say(line, numbered.number)

    async def answer(self, run_id: str, number: int, answer: AnyAnswer) -> None:
        await self._ask(Call(name="answer", run_id=run_id, number=number, answer=answer), type(None))

    async def cancel(self, run_id: str, grace: float = 5.0) -> None:
        try:
            await self._ask(Call(name="cancel", run_id=run_id, grace=grace), type(None))
        except RunLost:
            return

    async def status(self, run_id: str) -> RunState:
        try:
            return await self._ask(Call(name="status", run_id=run_id), RunState)
        except RunLost as error:
            return RunState(state="lost", reason=str(error))

    async def sweep(
        self, store_id: str, runs: Sequence[OpenRun], root: str = "", attached: Collection[str] = ()
    ) -> Sequence[Leftover]:
        call = Call(name="sweep", store_id=store_id, runs=tuple(runs), root=root, attached=tuple(attached))
        return await self._ask(call, tuple[Leftover, ...])

    async def remains(self, run: OpenRun) -> Remains:
        return await self._ask(Call(name="remains", runs=(run,)), Remains)

    async def remove_workspace(
        self, removal: Removal, confirm: Callable[[], Awaitable[bool]] = nobody_minds
    ) -> Removed:
        return await self._ask(Call(name="remove", removal=removal), Removed, confirm)

    async def tidy(self, root: str, keep_days: float) -> Sequence[str]:
        return await self._ask(Call(name="tidy", root=root, keep_days=keep_days), tuple[str, ...])

    async def kill(self) -> None:
        await self._ask(Call(name="kill"), type(None))

    async def aclose(self) -> None:
        """The client goes, its runs go on."""

    async def _ask(self, call: Call, kind: type[T], confirm: Callable[[], Awaitable[bool]] = nobody_minds) -> T:
        async with self._connected() as line:
            await _say(line, call)
            while (reply := await _reply(line)).kind == "confirm":
                await _say(line, await confirm())
            return msgspec.json.decode(reply.value, type=kind)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Line]:
        try:
            with short_path(str(self._socket)) as path:
                stream = await anyio.connect_unix(path)
        except OSError as error:
            raise RunLost(f"The worker does not answer: {error.strerror}.") from error
        async with stream:
            yield Line(stream)


async def _say(line: Line, frame: object) -> None:
    """A worker that takes no more is as good as gone."""
    try:
        with anyio.fail_after(LOST_AFTER):
            await line.send(frame)
    except GONE as error:
        raise RunLost("The worker is gone.") from error


async def _reply(line: Line) -> Reply:
    """The next one that says something; raises `RunLost` when there is not even a heartbeat."""
    while True:
        try:
            with anyio.fail_after(LOST_AFTER):
                reply = msgspec.json.decode(await line.receive(), type=Reply)
        except TimeoutError:
            raise RunLost(f"The worker was not heard for {LOST_AFTER:g} s.") from None
        except GONE as error:
            raise RunLost("The worker is gone.") from error
        if reply.kind == "error":
            raise _ERRORS.get(reply.error, SortieError)(msgspec.json.decode(reply.value, type=str))
        if reply.kind != "beat":
            return reply


def launch(directory: Path) -> subprocess.Popen[bytes]:
    """Start a worker in this directory, and wait until it can be asked."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "worker.sock").unlink(missing_ok=True)
    ready, theirs = os.pipe()
    command = [sys.executable, "-P", "-m", "sortie.testing.remote_worker", str(directory), str(theirs)]
    with os.fdopen(ready, "rb") as told:
        try:
            worker = subprocess.Popen(command, start_new_session=True, pass_fds=[theirs])
        finally:
            os.close(theirs)
        if told.read() != READY:
            raise SortieError("The worker could not start.")
    return worker
