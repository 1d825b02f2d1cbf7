"""The server of a fake model: on the loopback address alone, and gone with all its connections when it stops."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from .exchange import Exchange
from .memory import Memory, Request
from .steps import parse

HOST = "127.0.0.1"
NO_SCRIPT = ({"text": "no script in the prompt"},)
LOOK_FOR_STOP_EVERY = 0.05


class FakeModel:
    """Serves inside its `with` block. `script` is for prompts that have none, `script_of` the same for single
    wires; `log` gets a line a request."""

    def __init__(
        self,
        *,
        port: int = 0,
        key: str | None = None,
        script: Sequence[Mapping[str, Any]] = NO_SCRIPT,
        script_of: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        log: Path | None = None,
    ) -> None:
        self._port = port
        self._key = key
        self._fallbacks = {wire: parse(steps) for wire, steps in {"": script, **(script_of or {})}.items()}
        self._log = log
        self._open = ExitStack()

    def __enter__(self) -> FakeModel:
        with ExitStack() as opening:
            log = opening.enter_context(self._log.open("a", encoding="utf-8")) if self._log else None
            self._memory = Memory(self._key, self._fallbacks, log)
            self._listener = _Listener(self._port, self._memory)
            opening.callback(self._listener.server_close)
            thread = threading.Thread(target=self._listener.serve_forever, args=(LOOK_FOR_STOP_EVERY,))
            thread.start()
            opening.callback(thread.join)
            opening.callback(self._listener.stop)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """All so far, in the order they were asked."""
        return self._memory.requests


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, port: int, memory: Memory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        super().__init__((HOST, port), partial(Exchange, memory))
        self.port: int = self.socket.getsockname()[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is a mistake of ours and told in one line."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"fake model: {error!r}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Leaves no connection waiting, for us or for its client; the threads that closing joins all end."""
        self._memory.stopping.set()
        self.shutdown()
        with self._lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # The client was faster.
