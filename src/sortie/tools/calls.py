"""Tool calls in flight: a bounded number of threads, so that pings and cancellations are answered meanwhile."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from .cancellation import Cancellation
from .rpc import BUSY, INVALID_REQUEST, RequestId, RpcError
from .wire import say

AT_ONCE = 8
MOST = 256

Work = Callable[[Cancellation], None]


class _Call(NamedTuple):
    id: RequestId
    cancellation: Cancellation
    work: Work


class Calls:
    """Threads come with work and go when there is none left."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._in_flight: dict[RequestId, _Call] = {}
        self._waiting: deque[_Call] = deque()
        self._threads = 0

    def start(self, request_id: RequestId, work: Work) -> None:
        """Have `work` done soon, which includes the answer."""
        call = _Call(request_id, Cancellation(), work)
        with self._changed:
            if request_id in self._in_flight:
                raise RpcError(INVALID_REQUEST, "Invalid request: this id belongs to a call in flight.")
            if len(self._in_flight) >= MOST:
                raise RpcError(BUSY, f"{MOST} calls are in flight; wait for an answer before the next call.")
            if self._threads < AT_ONCE:
                threading.Thread(target=self._run, daemon=True).start()
                self._threads += 1
            self._in_flight[request_id] = call
            self._waiting.append(call)

    def cancel(self, request_id: RequestId) -> None:
        """Nothing happens where there is no such call (any more)."""
        with self._changed:
            call = self._in_flight.get(request_id)
        if call is not None:
            call.cancellation.request()

    def wait(self, seconds: float) -> bool:
        """Whether everything is answered, after waiting for it as long as that."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_flight, seconds)

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                call.work(call.cancellation)
            except Exception as error:
                # The next call must not suffer; whoever reads standard error can report it.
                say(f"a call ended without an answer: {type(error).__name__}")
            with self._changed:
                del self._in_flight[call.id]
                self._changed.notify_all()

    def _next(self) -> _Call | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None
