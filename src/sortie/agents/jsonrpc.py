"""Requests and answers in JSON lines with a process that lives for a session.

There is no task in the background: lines are read while somebody waits for an answer, and what else arrives then
goes to a listener. Whatever the other side writes, a wait ends with an answer, with the end of the process, or in
time.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import msgspec
from msgspec import UNSET, Raw, Struct

from .turn_reader import LINE_LIMIT, decode

if TYPE_CHECKING:
    from ..process.child import Child

_STDERR_LINES = 12
_STDERR_LINE = 2_000
_STDERR_WAIT = 1.0


class ResponseError(Exception):
    """The other side answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @classmethod
    def of(cls, error: Any) -> ResponseError:
        """From whatever the other side put into the field."""
        if not isinstance(error, dict):
            return cls(0, str(error))
        code, message = error.get("code"), error.get("message")
        return cls(code if isinstance(code, int) else 0, str(message or "no message"), error.get("data"))


class PeerGone(Exception):
    """The other side ended before it answered."""


class Message(Struct, frozen=True):
    """One line. With `method` it is a notification or, with `id` too, a request to us; else it is an answer."""

    id: Any = UNSET
    method: str = ""
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"null")
    error: Any = None


class Listener(Protocol):
    @abstractmethod
    def on_notification(self, message: Message) -> None:
        """A notification. Never raises."""

    @abstractmethod
    def on_request(self, message: Message) -> Any:
        """The answer to a request, or raises `ResponseError`."""

    def on_unreadable(self, line: bytes) -> None:
        """A line that is no message."""

    def on_stderr(self, text: str) -> None:
        """A line of standard error."""


class Peer:
    """The other side. `versioned` puts the `jsonrpc` field into every message."""

    def __init__(self, child: Child, listener: Listener, *, versioned: bool) -> None:
        self._child = child
        self._listener = listener
        self._head = {"jsonrpc": "2.0"} if versioned else {}
        self._numbers = itertools.count(1)
        self._lines: AsyncGenerator[bytes] | None = None
        self.stderr_tail: deque[str] = deque(maxlen=_STDERR_LINES)

    async def request(self, method: str, params: Any, timeout: float | None) -> Raw:
        """The result. Raises `ResponseError`, `PeerGone`, or `TimeoutError` after `timeout` seconds."""
        number = next(self._numbers)
        with anyio.fail_after(timeout):
            await self._send({"id": number, "method": method, "params": params})
            answer = await self._read_until(lambda message: not message.method and message.id == number)
        if answer.error is not None:
            raise ResponseError.of(answer.error)
        return answer.result

    async def notify(self, method: str, params: Any = None) -> None:
        await self._send({"method": method} if params is None else {"method": method, "params": params})

    async def read_until(self, enough: Callable[[], bool], timeout: float | None) -> None:
        """Go on reading until the listener has enough."""
        with anyio.fail_after(timeout):
            if not enough():
                await self._read_until(lambda _: enough())

    async def close(self) -> None:
        if self._lines is not None:
            await self._lines.aclose()
            self._lines = None

    async def _send(self, message: dict[str, Any]) -> None:
        await self._child.send(msgspec.json.encode({**self._head, **message}) + b"\n")

    async def _read_until(self, wanted: Callable[[Message], bool]) -> Message:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read_stderr)
            found = await self._read(wanted)
            # What it complains of at its end comes by another pipe, perhaps a moment later.
            tasks.cancel_scope.deadline = anyio.current_time() + (0 if found else _STDERR_WAIT)
        if found is None:
            raise PeerGone
        return found

    async def _read(self, wanted: Callable[[Message], bool]) -> Message | None:
        if self._lines is None:
            self._lines = self._child.lines(LINE_LIMIT)
        try:
            async for line in self._lines:
                try:
                    message = decode(line, Message)
                except (msgspec.DecodeError, RecursionError):
                    self._listener.on_unreadable(line)
                    continue
                if message.method:
                    await self._dispatch(message)
                if wanted(message):
                    return message
        except BaseException:
            self._lines = None  # a cancelled wait takes its iterator along
            raise
        return None

    async def _dispatch(self, message: Message) -> None:
        if message.id is UNSET or message.id is None:
            self._listener.on_notification(message)
            return
        answer: dict[str, Any] = {"id": message.id}
        try:
            answer["result"] = self._listener.on_request(message)
        except ResponseError as error:
            answer["error"] = {"code": error.code, "message": error.message}
        await self._send(answer)

    async def _read_stderr(self) -> None:
        async for line in self._child.error_lines():
            text = line[:_STDERR_LINE].decode("utf-8", "replace")
            self.stderr_tail.append(text)
            self._listener.on_stderr(text)
