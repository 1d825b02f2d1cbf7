"""One client on the wire: every frame it sends gets the answer it is owed, whatever is in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import generations, rpc
from .calls import Calls
from .cancellation import Cancellation
from .generations import HANDSHAKE, WITH_BATCHES
from .record import UNKNOWN, Record, particulars
from .redaction import Veil
from .rpc import Message, Request, RpcError
from .toolbox import Entry

# Takes the answer to one frame, exactly once; None where there is none to give.
Reply = Callable[[Message | None], None]


class Session:
    def __init__(
        self, entries: Mapping[str, Entry], send: Callable[[object], None], calls: Calls, record: Record, veil: Veil
    ) -> None:
        self._entries = entries
        self._send = send
        self._calls = calls
        self._record = record
        self._veil = veil
        self._agreed = HANDSHAKE[-1]

    def take(self, line: bytes | None) -> None:
        """Deal with one line; None is one that was too long to read."""
        try:
            if line is None:
                raise RpcError(rpc.INVALID_REQUEST, "Invalid request: the line is longer than 10 MiB.")
            if not line.strip():
                return
            frame = rpc.parse(line)
            if isinstance(frame, list):
                self._take_batch(frame)
            else:
                self._take_frame(frame, self._reply)
        except RpcError as error:
            self._send(rpc.failure(error.request_id, error))

    def _reply(self, answer: Message | None) -> None:
        if answer is not None:
            self._send(answer)

    def _take_batch(self, frames: list[Any]) -> None:
        if self._agreed != WITH_BATCHES:
            raise RpcError(rpc.INVALID_REQUEST, f"Invalid request: only version {WITH_BATCHES} has batches.")
        if not frames:
            raise RpcError(rpc.INVALID_REQUEST, "Invalid request: the batch is empty.")
        batch = _Batch(len(frames), self._send)
        for frame in frames:
            self._take_frame(frame, batch.reply)

    def _take_frame(self, frame: Any, reply: Reply) -> None:
        try:
            request = rpc.read_request(frame)
        except RpcError as error:
            reply(rpc.failure(error.request_id, error))
            return
        if request is None or request.id is None:
            self._notice(request)
            reply(None)
            return
        try:
            if request.method == "tools/call":
                self._start_call(request, reply)
            else:
                reply(rpc.success(request.id, self._result(request)))
        except RpcError as error:
            reply(rpc.failure(request.id, error))
        except Exception as error:
            problem = RpcError(rpc.INTERNAL_ERROR, f"Internal error ({type(error).__name__}).")
            reply(rpc.failure(request.id, problem))

    def _notice(self, notification: Request | None) -> None:
        if notification is not None and notification.method == "notifications/cancelled":
            cancelled = notification.params.get("requestId")
            if isinstance(cancelled, str | int | float):
                self._calls.cancel(cancelled)

    def _result(self, request: Request) -> Message:
        if request.method == "initialize":
            self._agreed = generations.agree_on(request.params)
            return generations.welcome(self._agreed)
        version = generations.version_of(request, self._agreed)
        match request.method:
            case "server/discover":
                result = generations.discovery()
            case "ping":
                result = {}
            case "tools/list":
                if request.params.get("cursor") is not None:
                    raise RpcError(rpc.INVALID_PARAMS, "Invalid params: there is one page only, without a cursor.")
                result = generations.tool_list((entry.definition for entry in self._entries.values()), version)
            case method:
                raise RpcError(rpc.METHOD_NOT_FOUND, f"Method not found: {rpc.shown(method)}")
        return generations.finished(result, version)

    def _start_call(self, request: Request, reply: Reply) -> None:
        version = generations.version_of(request, self._agreed)
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise RpcError(rpc.INVALID_PARAMS, "Invalid params: name must be a string.")
        if arguments is not None and not isinstance(arguments, dict):
            raise RpcError(rpc.INVALID_PARAMS, "Invalid params: arguments must be an object.")
        entry = self._entries.get(name)
        if entry is None:
            self._record.add(UNKNOWN, ok=False, started=time.perf_counter())
            raise RpcError(rpc.INVALID_PARAMS, f"Unknown tool: {rpc.shown(name)}")
        assert request.id is not None
        request_id = request.id

        def work(cancellation: Cancellation) -> None:
            result = self._call(entry, arguments or {}, version, cancellation)
            reply(None if cancellation.requested else rpc.success(request_id, result))

        self._calls.start(request_id, work)

    def _call(self, entry: Entry, arguments: dict[str, Any], version: str, cancellation: Cancellation) -> Message:
        started = time.perf_counter()
        name = entry.definition.name
        try:
            answer = {"error": "cancelled"} if cancellation.requested else entry.run(arguments, cancellation)
            result = generations.tool_result(self._veil.value(answer), version)
        except Exception as error:
            answer = {"error": f"{name} failed: {type(error).__name__}: {error}"}
            result = generations.tool_result(self._veil.value(answer), version)
        about = self._veil.value(particulars(name, arguments, answer))
        self._record.add(name, ok="isError" not in result, started=started, about=about)
        return generations.finished(result, version)


class _Batch:
    """Answers that go out together, in one array, when the last one is in."""

    def __init__(self, size: int, send: Callable[[object], None]) -> None:
        self._missing = size
        self._send = send
        self._answers: list[Message] = []
        self._lock = threading.Lock()

    def reply(self, answer: Message | None) -> None:
        with self._lock:
            self._missing -= 1
            if answer is not None:
                self._answers.append(answer)
            complete = not self._missing
        if complete and self._answers:
            self._send(self._answers)
