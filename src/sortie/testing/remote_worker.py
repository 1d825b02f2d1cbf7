"""The other end of `remote_host`: a process that runs a `LocalHost` for whoever asks, and goes on when he goes.

One that was frozen for longer than its lease knows that nobody believes in it any more: it ends its runs, and they
are lost for good.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections import deque
from contextlib import aclosing
from pathlib import Path

import anyio
import msgspec
from anyio.abc import SocketStream
from msgspec import Raw

from ..errors import SortieError
from ..hosts.host import HostInfo, Removal, RunLost, RunState
from ..hosts.local_host import NAME as HERE
from ..hosts.local_host import LocalHost
from ..process.spawn import prepare
from ..runs.messages import Ended, Numbered, encode_message
from ..runs.spec import RunSpec
from ..tools.broker_client import short_path
from .remote_host import GONE, NAME, READY, Call, Line, Reply

log = logging.getLogger(__name__)

BEAT = 0.2
LEASE = 3.0
# So many messages are on their way at once.
WINDOW = 500


class _Unread:
    """The messages of one run that are on their way."""

    def __init__(self) -> None:
        self.messages: deque[Numbered] = deque()
        self._fewer = anyio.Event()

    def forget(self, number: int) -> None:
        while self.messages and self.messages[0].number <= number:
            self.messages.popleft()
        self._fewer.set()

    async def listen(self, line: Line) -> None:
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
        self._host = LocalHost(directory / "worker.db")
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
        line = Line(stream)
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
        except* GONE:
            pass  # the client went away
        except* Exception:  # the edge of a connection: a defect here must not take the runs along
            log.exception("a connection of the worker failed")

    async def _perform(self, call: Call, line: Line) -> None:
        if call.run_id in self._lost and call.name not in ("cancel", "status"):
            raise RunLost("The worker was frozen for too long, and has ended this run.")
        if call.name == "events":
            await self._tell(call.run_id, call.number, line)
            await line.send(Reply(kind="end"))
        else:
            value = await self._value(call, line)
            await line.send(Reply(kind="value", value=Raw(msgspec.json.encode(value))))

    async def _tell(self, run_id: str, after: int, line: Line) -> None:
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

    async def _value(self, call: Call, line: Line) -> object:
        async def confirm() -> bool:
            await line.send(Reply(kind="confirm"))
            return await line.receive() == b"true"

        match call:
            case Call(name="hosts"):
                return [HostInfo(name=NAME)]
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


async def _keep_beating(line: Line) -> None:
    while True:
        await line.send(Reply(kind="beat"))
        await anyio.sleep(BEAT)


if __name__ == "__main__":
    anyio.run(Worker(Path(sys.argv[1])).serve, int(sys.argv[2]))
