"""A proxy before a server of an API: it keeps what was said, tags answers, and on demand does what goes wrong.

Everything asked is compared with the vendor's own description of the API; `problems` has what does not fit.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .github_schema import GitHubSchema
from .loopback_http import LoopbackHTTP

ROOT = "/api/v3"
# Of a slow answer: bytes, and seconds.
AT_A_TIME, BETWEEN = 16, 0.005
_MILLISECONDS = re.compile(rb"(T\d\d:\d\d:\d\d)\.\d{3}Z")
_NOT_PASSED_ON = frozenset({"connection", "transfer-encoding", "content-length", "host", "keep-alive"})


class Asked(Struct, frozen=True):
    """`path` has its query and is relative to the root of the API; names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str] = {}
    body: bytes = b""


class Answer(Struct, frozen=True):
    """`deed` says something else on the connection than an answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}
    deed: Callable[[socket.socket], object] | None = None


class Exchange(Struct, frozen=True):
    asked: Asked
    status: int


class Overlay(Protocol):
    """What the server behind does not have."""

    def answer(self, asked: Asked) -> Answer | None:
        """An answer of its own, None to ask the server."""
        ...

    def passed_on(self, asked: Asked) -> Asked: ...

    def completed(self, asked: Asked, answer: Answer) -> Answer:
        """The server's answer, with what it lacks."""
        ...

    def is_vouched_for(self, asked: Asked, answer: Answer) -> bool:
        """Whether the vendor's description has to fit this answer."""
        ...


class _Fault(Struct):
    on: re.Pattern[str]
    answer: Answer
    times: int
    is_done_first: bool


class FaultProxy:
    """`url` is the root of the API."""

    def __init__(self, upstream: str, overlay: Overlay, schema: GitHubSchema) -> None:
        self.exchanges: list[Exchange] = []
        self.problems: list[str] = []
        self.is_silent = threading.Event()
        self.released = threading.Event()
        self._upstream = urlsplit(upstream)
        self._overlay = overlay
        self._schema = schema
        self._faults: list[_Fault] = []
        self._stale: dict[str, Answer] | None = None
        self._last: dict[str, Answer] = {}
        self._lock = threading.Lock()
        self._http = LoopbackHTTP(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_port}{ROOT}"

    @classmethod
    @contextmanager
    def running(cls, upstream: str, overlay: Overlay, schema: GitHubSchema) -> Iterator[FaultProxy]:
        proxy = cls(upstream, overlay, schema)
        threading.Thread(target=proxy._http.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.released.set()
            proxy._http.shutdown()
            proxy._http.server_close()

    # -- what a test says --------------------------------------------------------------------------------------

    def fail(self, on: str, answer: Answer, *, times: int = 1, is_done_first: bool = False) -> None:
        """Whatever matches `METHOD /path` as a whole is answered so; the server may have done it before."""
        with self._lock:
            self._faults.append(_Fault(re.compile(on), answer, times, is_done_first))

    def freeze_lists(self) -> None:
        """From now on lists and the search answer as they did last."""
        self._stale = dict(self._last)

    def thaw_lists(self) -> None:
        self._stale = None

    def asked(self, on: str = ".*") -> list[Asked]:
        with self._lock:
            return [one.asked for one in self.exchanges if re.fullmatch(on, _line(one.asked))]

    def forget(self) -> None:
        with self._lock:
            self.exchanges.clear()

    def silence(self) -> Answer:
        """No answer; `is_silent` is set when somebody waits for one."""

        def wait(_: socket.socket) -> None:
            self.is_silent.set()
            self.released.wait()

        return Answer(deed=wait)

    def slow(self, body: bytes) -> Answer:
        """A few bytes at a time, but in the end all of it."""

        def trickle(line: socket.socket) -> None:
            line.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            for place in range(0, len(body), AT_A_TIME):
                line.sendall(body[place : place + AT_A_TIME])
                self.released.wait(BETWEEN)

        return Answer(deed=trickle)

    # -- what is done with a call ------------------------------------------------------------------------------

    def answer(self, asked: Asked) -> Answer:
        problems = self._schema.request_problems(asked.method, asked.path, asked.headers, asked.body or None)
        fault = self._fault_for(asked)
        if fault and not fault.is_done_first:
            answer = fault.answer
            if answer.status >= 300 and answer.body.startswith(b"{"):  # what is no JSON is meant to be wrong
                problems += self._schema.answer_problems(
                    asked.method, asked.path, answer.status, answer.headers, answer.body
                )
        else:
            usual = self._usual(asked)
            if self._overlay.is_vouched_for(asked, usual):
                problems += self._schema.answer_problems(
                    asked.method, asked.path, usual.status, usual.headers, usual.body
                )
            answer = fault.answer if fault else self._tagged(asked, usual)
        with self._lock:
            self.problems += problems
            self.exchanges.append(Exchange(asked, answer.status))
        return answer

    def _fault_for(self, asked: Asked) -> _Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.times and fault.on.fullmatch(_line(asked)):
                    fault.times -= 1
                    return fault
        return None

    def _usual(self, asked: Asked) -> Answer:
        if invented := self._overlay.answer(asked):
            return invented
        answer = self._overlay.completed(asked, self._forwarded(self._overlay.passed_on(asked)))
        if asked.method == "GET" and _is_list(asked.path):
            if self._stale is not None and asked.path in self._stale:
                return self._stale[asked.path]
            self._last[asked.path] = answer
        return answer

    def _forwarded(self, asked: Asked) -> Answer:
        connection = http.client.HTTPConnection(str(self._upstream.hostname), self._upstream.port, timeout=30)
        try:
            headers = {name: value for name, value in asked.headers.items() if name not in _NOT_PASSED_ON}
            connection.request(asked.method, asked.path, asked.body or None, headers)
            got = connection.getresponse()
            body = self._here(_MILLISECONDS.sub(rb"\1Z", got.read()))
            kept = {name.lower(): value for name, value in got.getheaders() if name.lower() not in _NOT_PASSED_ON}
        finally:
            connection.close()
        if "link" in kept:
            kept["link"] = self._here(kept["link"].encode()).decode()
        return Answer(got.status, body, kept)

    def _here(self, text: bytes) -> bytes:
        return text.replace(f"{self._upstream.scheme}://{self._upstream.netloc}".encode(), self.url.encode())

    def _tagged(self, asked: Asked, answer: Answer) -> Answer:
        """With an ETag, and shortened to nothing for who has it."""
        if asked.method != "GET" or answer.status != 200:
            return answer
        tag = f'W/"{hashlib.sha256(answer.body).hexdigest()}"'
        headers = {**answer.headers, "etag": tag}
        if asked.headers.get("if-none-match") == tag:
            return replace(answer, status=304, body=b"", headers=headers)
        return replace(answer, headers=headers)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(length)
                answer = proxy.answer(Asked(self.command, self.path.removeprefix(ROOT), headers, body))
                if answer.deed:
                    answer.deed(self.connection)
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in answer.headers.items()}
                self.send_response_only(answer.status)
                headers.setdefault("date", self.date_time_string())
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names that http.server looks for

            def log_message(self, *_: object) -> None:
                """What is said is kept, not printed."""

        return Handler


# -- what goes wrong ---------------------------------------------------------------------------------------------


def refused(status: int, message: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    told = {"message": message or f"status {status}", "documentation_url": "https://docs.github.com/rest"}
    body = msgspec.json.encode(told)
    return Answer(status, body, {"content-type": "application/json", **named})


def bad_credentials() -> Answer:
    return refused(401, "Bad credentials")


def too_many() -> Answer:
    return refused(429, "Too many requests", retry_after="30")


def secondary_limit() -> Answer:
    return refused(403, "You have exceeded a secondary rate limit.", retry_after="30")


def used_up() -> Answer:
    reset = str(int(time.time()) + 1800)
    message = "API rate limit exceeded for user ID 1."
    return refused(403, message, x_ratelimit_limit="5000", x_ratelimit_remaining="0", x_ratelimit_reset=reset)


def html() -> Answer:
    return Answer(200, b"<!DOCTYPE html><title>Sign in</title>", {"content-type": "text/html"})


def half_of_a_document() -> Answer:
    return Answer(200, b'[{"number": 1, "title": "Ha', {"content-type": "application/json"})


def dropped() -> Answer:
    """The connection ends in the middle of the answer."""
    return Answer(deed=lambda line: line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n[{"))


def _line(asked: Asked) -> str:
    return f"{asked.method} {asked.path}"


def _is_list(path: str) -> bool:
    place = urlsplit(path).path
    return place.endswith("/issues")
