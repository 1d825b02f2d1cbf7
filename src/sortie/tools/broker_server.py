"""The orchestrator's end of the broker: answers the tool calls of one run's sidecars, so these hold no credentials.

Only who knows the run's token is answered, over a socket that only its owner can open. A connection carries one
call; the call ends when its connection does.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketListener, SocketStream, TaskStatus

from ..errors import SortieError
from . import envelope
from .broker_client import REQUEST_LIMIT, encoded, short_path

log = logging.getLogger(__name__)

Handler = Callable[[str, object], Awaitable[dict[str, Any]]]

AT_ONCE = 64

_REQUEST_SECONDS = 10.0
_HANDLER_SECONDS = 35.0
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = 0.1


class Broker:
    """`handler` gets the tool's name and arguments, and answers with the tool's documented JSON."""

    def __init__(self, token: str, handler: Handler) -> None:
        if not token:
            raise ValueError("a broker needs a token")
        self._token = token.encode()
        self._handler = handler

    async def serve(self, path: Path, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Answer calls until cancelled; `started` once the socket is there."""
        slots = anyio.Semaphore(AT_ONCE)
        async with _listening(path) as listener, anyio.create_task_group() as connections:
            task_status.started()
            while True:
                # Taken before the connection: who is one too many waits outside and costs no descriptor.
                await slots.acquire()
                try:
                    stream = await listener.accept()
                except OSError:
                    # No descriptor is free at the moment; the caller waits in the queue until one is.
                    slots.release()
                    await anyio.sleep(_PAUSE_SECONDS)
                else:
                    connections.start_soon(self._converse, stream, slots)

    async def _converse(self, stream: SocketStream, slots: anyio.Semaphore) -> None:
        try:
            async with stream:
                answer = await self._answer_to(stream)
                if answer is not None:
                    with anyio.move_on_after(_ANSWER_SECONDS):
                        await stream.send(answer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the sidecar is gone, and with it whoever wanted the answer
        except Exception:  # the edge of a connection: a defect here must not take the run along
            log.exception("a connection of the broker failed")
        finally:
            slots.release()

    async def _answer_to(self, stream: SocketStream) -> bytes | None:
        """None where nobody waits for an answer any more."""
        line: bytes | None = None
        with anyio.move_on_after(_REQUEST_SECONDS):
            line = await _read_line(stream)
        if line is None:
            return None
        if len(line) > REQUEST_LIMIT:
            return _failure(envelope.INVALID_INPUT, "The call is larger than 1 MiB.")
        answer: bytes | None = None
        async with anyio.create_task_group() as group:

            async def hang_up() -> None:
                while await _receive(stream):
                    pass
                group.cancel_scope.cancel()

            group.start_soon(hang_up)
            answer = await self._answer(line)
            group.cancel_scope.cancel()
        return answer

    async def _answer(self, line: bytes) -> bytes:
        try:
            order = json.loads(line.decode("utf-8"))
            token, tool, arguments = order["token"], order["tool"], order["arguments"]
            given = token.encode("utf-8", "replace")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            return _failure(envelope.INVALID_INPUT, "The call is not a JSON line of the broker.")
        if not hmac.compare_digest(given, self._token):
            return _failure(envelope.AUTH_ERROR, "The token is not the one of a running session.")
        try:
            with anyio.fail_after(_HANDLER_SECONDS):
                return encoded(await self._handler(str(tool), arguments))
        except TimeoutError:
            return _failure(envelope.TRANSPORT_ERROR, f"There was no answer within {_HANDLER_SECONDS:g} s.")
        except Exception as error:  # also for what JSON cannot hold, from a tracker of somebody else's
            return encoded(envelope.unexpected(error))


def _failure(kind: str, message: str) -> bytes:
    return encoded(envelope.failure(kind, message))


async def _read_line(stream: SocketStream) -> bytes | None:
    """The line, or more than a line may have; None where the other end says nothing."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) <= REQUEST_LIMIT:
        received = await _receive(stream)
        if not received:
            return None
        line += received
    return bytes(line)


async def _receive(stream: SocketStream) -> bytes:
    """What comes next; nothing where the other end is gone."""
    try:
        return await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return b""


@asynccontextmanager
async def _listening(path: Path) -> AsyncIterator[SocketListener]:
    """A socket in a directory of its owner alone; one that a dead orchestrator left is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(path.parent)
    listener = await SocketListener.from_socket(_bound(path))
    try:
        async with listener:
            yield listener
    finally:
        remove_socket(path)


def _bound(path: Path) -> socket.socket:
    """Here and now: a library that does it in threads takes longer than all the rest of a small run's tools."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.setblocking(False)
        with short_path(str(path)) as name:
            path.unlink(missing_ok=True)
            found.bind(name)
            os.chmod(name, 0o600)  # noqa: PTH101 - the directory is its owner's alone, also before this
        found.listen(AT_ONCE)
    except BaseException:
        found.close()
        raise
    return found


def remove_socket(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass  # an agent put something else in its place; that must cost neither its run nor the next start


def _check_private(folder: Path) -> None:
    status = folder.lstat()
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077 and status.st_uid == os.geteuid()
    if not private:
        raise SortieError(
            f"{folder} is not a directory of its owner alone.", fix=f"Remove it, or `chmod 700 {folder}`."
        )
