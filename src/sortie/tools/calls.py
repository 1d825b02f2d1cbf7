"""Tool calls in flight: each is run until its deadline or its cancellation, redacted, recorded and answered.

They have a bounded number of threads, so that pings and cancellations are answered meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from . import rpc
from .envelope import redacted, secrets_in
from .mcp_versions import finished, tool_result
from .record import UNKNOWN, CallRecord, particulars
from .stdio import log_line

if TYPE_CHECKING:
    from .mcp_session import Reply
    from .rpc import RequestId
    from .toolbox import SessionTool

AT_ONCE = 8
MOST = 256


class Cancellation:
    """A client's wish that a call in flight stop: told once, to whoever works for the call at that moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self.requested = False

    def request(self) -> None:
        with self._lock:
            self.requested = True
            if self._stop is not None:
                self._stop()

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """While the body runs, a request calls `stop`, which must not block; never afterwards."""
        with self._lock:
            self._stop = stop
            if self.requested:
                stop()
        try:
            yield
        finally:
            with self._lock:
                self._stop = None


class GivenUp(Exception):
    """The code is still running, and nobody waits for it any more."""


def run_limited(work: Callable[[], Any], seconds: float, cancellation: Cancellation | None = None) -> Any:
    """Other people's code: what it returns or raises, `SystemExit` included.

    `GivenUp` when time is over or the call cancelled; its thread is left alone, and ends with the process.
    """
    over = threading.Event()
    outcome: list[tuple[Any, BaseException | None]] = []

    def produce() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:  # it belongs to the caller, in whose thread it is raised again
            outcome.append((None, error))
        over.set()

    threading.Thread(target=produce, daemon=True).start()
    with (cancellation or Cancellation()).stopping(over.set):
        over.wait(seconds)
    value, error = outcome[0] if outcome else (None, GivenUp(f"did not answer within {seconds:g} s"))
    if error is not None:
        raise error
    return value


class _Call(NamedTuple):
    id: RequestId
    tool: SessionTool
    arguments: dict[str, Any]
    version: str
    reply: Reply
    cancellation: Cancellation


class CallsInFlight:
    """Threads come with work and go when there is none left."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._secrets = secrets_in(environ)
        self._record = CallRecord(environ.get("SORTIE_TOOL_LOG", ""), environ.get("SORTIE_RUN_ID", ""))
        self._changed = threading.Condition()
        self._in_flight: dict[RequestId, _Call] = {}
        self._waiting: deque[_Call] = deque()
        self._threads = 0

    def start(
        self, request_id: RequestId, tool: SessionTool, arguments: dict[str, Any], version: str, reply: Reply
    ) -> None:
        """Have the tool called soon, and the call answered."""
        call = _Call(request_id, tool, arguments, version, reply, Cancellation())
        with self._changed:
            if request_id in self._in_flight:
                raise rpc.invalid_request("this id belongs to a call in flight")
            if len(self._in_flight) >= MOST:
                problem = f"{MOST} calls are in flight; wait for an answer before the next call."
                raise rpc.ErrorResponse(rpc.BUSY, problem)
            if self._threads < AT_ONCE:
                threading.Thread(target=self._run, daemon=True).start()
                self._threads += 1
            self._in_flight[request_id] = call
            self._waiting.append(call)

    def count_unknown(self) -> None:
        """A call of a tool that this session does not have."""
        self._record.add(UNKNOWN, ok=False, started=time.perf_counter())

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
                self._perform(call)
            except Exception as error:
                # The next call must not suffer; whoever reads standard error can report it.
                log_line(f"a call ended without an answer: {type(error).__name__}")
            with self._changed:
                del self._in_flight[call.id]
                self._changed.notify_all()

    def _next(self) -> _Call | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None

    def _perform(self, call: _Call) -> None:
        started = time.perf_counter()
        name = call.tool.definition.name
        answer = _answer(call)
        try:
            result = tool_result(redacted(answer, self._secrets), call.version)
        except Exception as error:  # it is nothing that JSON can hold
            answer = _failed(name, error)
            result = tool_result(redacted(answer, self._secrets), call.version)
        about = redacted(particulars(name, call.arguments, answer), self._secrets)
        self._record.add(name, ok="isError" not in result, started=started, about=about)
        cancelled = call.cancellation.requested
        call.reply(None if cancelled else rpc.success(call.id, finished(result, call.version)))


def _answer(call: _Call) -> Any:
    name = call.tool.definition.name
    if call.cancellation.requested:
        return {"error": "cancelled"}
    try:
        return call.tool.run(call.arguments, call.cancellation)
    except GivenUp as given_up:
        return {"error": f"{name} {given_up}"}
    except (Exception, SystemExit) as error:
        return _failed(name, error)


def _failed(name: str, error: BaseException) -> dict[str, Any]:
    return {"error": f"{name} failed: {type(error).__name__}: {error}"}
