"""A server on loopback that answers what a test tells it to, and keeps what it was asked."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from msgspec import Struct

from .loopback_http import LoopbackHTTP


class Asked(Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Answer(Struct, frozen=True):
    """`deed` does something else than to answer: it gets the connection and says what it likes."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = {}
    deed: Callable[[socket.socket], object] | None = None


class ScriptedServer:
    """Answers in the order of `script`; when that is empty, with `usual`."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.script: deque[Answer] = deque()
        self.usual = Answer()
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                asked = Asked(
                    self.command, self.path, dict(self.headers), self.rfile.read(length), self.client_address[1]
                )
                server.asked.append(asked)
                answer = server.script.popleft() if server.script else server.usual
                if answer.deed:
                    answer.deed(self.connection)
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                body = b"" if answer.status in (204, 304) else answer.body
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names that http.server looks for

            def log_message(self, *_: object) -> None:
                """What is asked is kept, not printed."""

        self._http = LoopbackHTTP(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def never_answers(self) -> Answer:
        return Answer(deed=lambda _: self.released.wait())

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[ScriptedServer]:
        server = cls()
        threading.Thread(target=server._http.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            server.released.set()
            server._http.shutdown()
            server._http.server_close()
