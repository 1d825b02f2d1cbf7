"""A gate before Redmine: everything passes, but a test may hold one call for ever, before or after it is done."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from .loopback_http import LoopbackHTTP

_NOT_PASSED_ON = frozenset({"connection", "transfer-encoding", "content-length", "host", "keep-alive"})


class Asked(Struct, frozen=True):
    """`number` counts from the last `hold`; `fields` are those of the issue that the call writes."""

    method: str
    path: str
    fields: dict[str, Any]
    number: int


class Answer(Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, str]


class _Hold(Struct, frozen=True):
    which: Callable[[Asked], bool]
    is_done_first: bool


class Gate:
    def __init__(self, upstream: str) -> None:
        self.reached = threading.Event()
        self.asked: list[Asked] = []
        self._upstream = urlsplit(upstream)
        self._hold: _Hold | None = None
        self._count = 0
        self._lock = threading.Lock()
        self._http = LoopbackHTTP(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    @classmethod
    @contextmanager
    def before(cls, upstream: str) -> Iterator[Gate]:
        gate = cls(upstream)
        threading.Thread(target=gate._http.serve_forever, args=(0.01,), daemon=True).start()
        yield gate
        gate._http.shutdown()
        gate._http.server_close()

    def hold(self, which: Callable[[Asked], bool], *, is_done_first: bool = False) -> None:
        """The next such call, once: `reached` is set then, and its caller waits until he is dead."""
        with self._lock:
            self.reached.clear()
            self._hold, self._count = _Hold(which, is_done_first), 0

    def _noted(self, method: str, path: str, body: bytes) -> _Hold | None:
        with self._lock:
            self._count += 1
            fields = msgspec.json.decode(body)["issue"] if body else {}
            self.asked.append(Asked(method, path, fields, self._count))
            hold = self._hold
            if hold is None or not hold.which(self.asked[-1]):
                return None
            self._hold = None
            return hold

    def _forwarded(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(str(self._upstream.hostname), self._upstream.port, timeout=30)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
        with closing(connection):
            connection.request(request.command, request.path, body or None, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read(), dict(response.getheaders()))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                hold = gate._noted(self.command, self.path, body)
                if hold and not hold.is_done_first:
                    return self._wait_for_the_end()
                answer = gate._forwarded(self, body)
                if hold:
                    return self._wait_for_the_end()
                self.send_response_only(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in _NOT_PASSED_ON:
                        self.send_header(name, value)
                if answer.status not in (204, 304):
                    self.send_header("Content-Length", str(len(answer.body)))
                try:
                    self.end_headers()
                    self.wfile.write(answer.body)
                except OSError:
                    self.close_connection = True  # whoever asked was killed
                return None

            do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - names that http.server looks for

            def _wait_for_the_end(self) -> None:
                gate.reached.set()
                self.close_connection = True
                try:
                    self.connection.recv(1)
                except OSError:
                    pass  # that is an end too

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionResetError:
                    pass  # whoever was connected was killed

            def log_message(self, *_: object) -> None:
                """What is asked is kept, not printed."""

        return Handler
