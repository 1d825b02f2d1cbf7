"""A host in a process of its own, which lives on when its client goes: how a host far away behaves, in small.

The worker runs a `LocalHost`; each call of the client is one connection to its Unix socket, with a frame of JSON on
each line. A worker that was frozen for longer than its lease knows that nobody believes in it any more: it ends its
runs, and they are lost for good.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
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
from ..hosts.local_host import NAME as HERE
from ..hosts.local_host import LocalHost, StatePaths
from ..process.spawn import prepare
from ..runs.messages import QUESTIONS, AnyAnswer, Ended, Numbered, decode_message, encode, encode_message
from ..runs.spec import RunSpec
from ..tools.broker_client import short_path

log = logging.getLogger(__name__)

NAME = "worker"
READY = b"ready"
BEAT = 0.2
LEASE = 3.0
LOST_AFTER = 5.0

# So many messages are on their way at once.
WINDOW = 500
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


class _Line:
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


_GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class RemoteHost:
    """The client; implements `Host`. Nothing is asked of the worker before the first call."""

    def __init__(self, directory: Path, capacity: int | None = None) -> None:
        self._socket = directory / "worker.sock"
        self._capacity = capacity

    async def hosts(self) -> Sequence[HostInfo]:
        try:
            found = await self._ask(Call(name="hosts"), tuple[HostInfo, ...])
            return [replace(info, capacity=self._capacity) for info in found]
        except RunLost:
            return []

    async def start(self, run_id: str, fence: str, spec: RunSpec, host: str = NAME) -> None:
        if host != NAME:
            raise SortieError(f"There is no host {host} here; this one is {NAME}.")
        await self._ask(Call(name="start", run_id=run_id, fence=fence, spec=spec), type(None))

    async def attach(self, run_id: str) -> None:
        await self._ask(Call(name="attach", run_id=run_id), type(None))

    async def events(self, run_id: str, after: int = 0) -> AsyncGenerator[Numbered]:
        async with self._connected() as line:
            await line.send(Call(name="events", run_id=run_id, number=after))
            while True:
                reply = await _reply(line)
                if reply.kind == "end":
                    return
                numbered = decode_message(reply.value)
                yield numbered
                if numbered.number % ACKNOWLEDGE_EVERY == 0 or isinstance(numbered.message, (*QUESTIONS, Ended)):
                    await line.send(numbered.number)

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
            await line.send(call)
            while (reply := await _reply(line)).kind == "confirm":
                await line.send(await confirm())
            return msgspec.json.decode(reply.value, type=kind)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[_Line]:
        try:
            with short_path(str(self._socket)) as path:
                stream = await anyio.connect_unix(path)
        except OSError as error:
            raise RunLost(f"The worker does not answer: {error.strerror}.") from error
        async with stream:
            yield _Line(stream)


async def _reply(line: _Line) -> Reply:
    """The next one that says something; raises `RunLost` when there is not even a heartbeat."""
    while True:
        try:
            with anyio.fail_after(LOST_AFTER):
                reply = msgspec.json.decode(await line.receive(), type=Reply)
        except TimeoutError:
            raise RunLost(f"The worker was not heard for {LOST_AFTER:g} s.") from None
        except _GONE as error:
            raise RunLost("The worker is gone.") from error
        if reply.kind == "error":
            raise _ERRORS.get(reply.error, SortieError)(msgspec.json.decode(reply.value, type=str))
        if reply.kind != "beat":
            return reply


class _Unread:
    """The messages of one run that are on their way."""

    def __init__(self) -> None:
        self.messages: deque[Numbered] = deque()
        self._fewer = anyio.Event()

    def forget(self, number: int) -> None:
        while self.messages and self.messages[0].number <= number:
            self.messages.popleft()
        self._fewer.set()

    async def listen(self, line: _Line) -> None:
        while True:
            self.forget(int(await line.receive()))

    async def at_most(self, number: int) -> None:
        while len(self.messages) > number:
            self._fewer = anyio.Event()
            await self._fewer.wait()


class Worker:
    """The other end. It ends with its directory, so that no worker stays behind for ever."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._host = LocalHost(state=StatePaths(directory / "worker.db"))
        self._running: set[str] = set()
        self._lost: set[str] = set()
        self._unread: dict[str, _Unread] = {}
        self._last_beat = time.monotonic()

    async def serve(self, ready: int) -> None:
        prepare()
        with short_path(str(self._directory / "worker.sock")) as path:
            listener = await anyio.create_unix_listener(path)
        os.write(ready, READY)
        os.close(ready)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._converse)
            with anyio.open_signal_receiver(signal.SIGTERM) as asked_to_end:
                tasks.start_soon(self._beat, tasks.cancel_scope)
                async for _ in asked_to_end:
                    break
            tasks.cancel_scope.cancel()
        await self._host.aclose()

    async def _beat(self, scope: anyio.CancelScope) -> None:
        while self._directory.is_dir():
            await anyio.sleep(BEAT)
            await self._renew_lease()
        scope.cancel()

    async def _renew_lease(self) -> None:
        before, self._last_beat = self._last_beat, time.monotonic()
        if self._last_beat - before > LEASE:
            states = {run_id: await self._host.status(run_id) for run_id in self._running}
            lost, self._running = {run_id for run_id in states if states[run_id].state == "running"}, set()
            self._lost |= lost
            async with anyio.create_task_group() as ending:
                for run_id in lost:
                    ending.start_soon(self._host.cancel, run_id, 0.0)

    async def _converse(self, stream: SocketStream) -> None:
        line = _Line(stream)
        try:
            async with stream:
                call = msgspec.json.decode(await line.receive(), type=Call)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_keep_beating, line)
                    try:
                        await self._renew_lease()
                        await self._perform(call, line)
                    except SortieError as error:
                        text = Raw(msgspec.json.encode(error.message))
                        await line.send(Reply(kind="error", error=type(error).__name__, value=text))
                    tasks.cancel_scope.cancel()
        except* _GONE:
            pass  # the client went away
        except* Exception:  # the edge of a connection: a defect here must not take the runs along
            log.exception("a connection of the worker failed")

    async def _perform(self, call: Call, line: _Line) -> None:
        if call.run_id in self._lost and call.name not in ("cancel", "status"):
            raise RunLost("The worker was frozen for too long, and has ended this run.")
        if call.name == "events":
            await self._tell(call.run_id, call.number, line)
            await line.send(Reply(kind="end"))
        else:
            value = await self._value(call, line)
            await line.send(Reply(kind="value", value=Raw(msgspec.json.encode(value))))

    async def _tell(self, run_id: str, after: int, line: _Line) -> None:
        """What was sent and not dealt with is sent again, to whoever asks."""
        unread = self._unread.get(run_id) or _Unread()
        unread.forget(after)
        last = unread.messages[-1] if unread.messages else None
        is_whole = last is not None and isinstance(last.message, Ended)
        rest = None if is_whole else self._host.events(run_id, last.number if last else after)
        self._unread[run_id] = unread
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(unread.listen, line)
            for numbered in list(unread.messages):
                await line.send(Reply(kind="message", value=Raw(encode_message(numbered))))
            if rest is not None:
                async with aclosing(rest):
                    async for numbered in rest:
                        unread.messages.append(numbered)
                        await line.send(Reply(kind="message", value=Raw(encode_message(numbered))))
                        await unread.at_most(WINDOW)
            await unread.at_most(0)
            tasks.cancel_scope.cancel()
        del self._unread[run_id]

    async def _value(self, call: Call, line: _Line) -> object:
        async def confirm() -> bool:
            await line.send(Reply(kind="confirm"))
            return await line.receive() == b"true"

        match call:
            case Call(name="hosts"):
                return [HostInfo(name=NAME, last_heartbeat=time.time())]
            case Call(name="start", spec=RunSpec() as spec):
                await self._host.start(call.run_id, call.fence, spec, HERE)
                self._running.add(call.run_id)
            case Call(name="attach"):
                await self._host.attach(call.run_id)
            case Call(name="answer", answer=answer) if answer is not None:
                await self._host.answer(call.run_id, call.number, answer)
            case Call(name="cancel"):
                await self._host.cancel(call.run_id, call.grace)
            case Call(name="status"):
                return RunState(state="lost") if call.run_id in self._lost else await self._host.status(call.run_id)
            case Call(name="sweep"):
                return await self._host.sweep(call.store_id, call.runs, call.root, call.attached)
            case Call(name="remains", runs=(run,)):
                return await self._host.remains(run)
            case Call(name="remove", removal=Removal() as removal):
                return await self._host.remove_workspace(removal, confirm)
            case Call(name="tidy"):
                return await self._host.tidy(call.root, call.keep_days)
            case Call(name="kill"):
                await self._host.kill()
            case _:
                raise SortieError(f"There is no call {call.name} with these arguments.")
        return None


async def _keep_beating(line: _Line) -> None:
    while True:
        await line.send(Reply(kind="beat"))
        await anyio.sleep(BEAT)


def launch(directory: Path) -> subprocess.Popen[bytes]:
    """Start a worker in this directory, and wait until it can be asked."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "worker.sock").unlink(missing_ok=True)
    ready, theirs = os.pipe()
    command = [sys.executable, "-m", "sortie.testing.remote_host", str(directory), str(theirs)]
    with os.fdopen(ready, "rb") as told:
        try:
            worker = subprocess.Popen(command, start_new_session=True, pass_fds=[theirs])
        finally:
            os.close(theirs)
        if told.read() != READY:
            raise SortieError("The worker could not start.")
    return worker


if __name__ == "__main__":
    anyio.run(Worker(Path(sys.argv[1])).serve, int(sys.argv[2]))
