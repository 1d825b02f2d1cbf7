"""Runs uvicorn on a socket that is open already, until a signal comes or the parent process is gone."""

from __future__ import annotations

import asyncio
import io
import logging
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

import anyio.to_thread
import msgspec
import uvicorn

from ..core.redact import Hide
from ..engine.dashboard import Orders
from ..engine.report import LiveReport
from .app import make_app
from .connection import MOST_REQUESTS, BoundedConnection
from .site import Live, Site

KEEP_ALIVE = 10
# More threads that compute do not make more reports, and leave the loop no time to answer anybody.
REPORTS_AT_ONCE = 8
# Streams are told that the server ends; answers that take longer are cut off.
LAST_ANSWERS_WITHIN = 1
# The request line and all headers together.
LARGEST_HEAD = 32 * 1024


def serve_service(told: BinaryIO) -> None:
    """Serves the dashboard of the service on our standard input, until that ends."""
    orders = msgspec.json.decode(told.readline(), type=Orders)
    listening = socket.socket(fileno=orders.descriptor)
    site = Site(
        Path(orders.database),
        Path(orders.place),
        is_plan=orders.is_plan,
        host=orders.server.host,
        server=orders.server,
    )
    server = _server(site)

    def hear() -> None:
        try:
            _hear(told, site.live)
        finally:
            server.should_exit = True

    threading.Thread(target=hear, name="reports", daemon=True).start()
    server.run(sockets=[listening])


def _hear(told: BinaryIO, live: Live) -> None:
    """What the service reports. What cannot be read is said once and not shown: pages without it are better than
    no pages."""
    decoder, complaint = msgspec.json.Decoder(LiveReport), ""
    for line in told:
        try:
            live.hear(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if str(error) != complaint:
                complaint = str(error)
                sys.stderr.write(f"a report of the service cannot be read: {complaint}\n")


def serve_store(site: Site, listening: socket.socket) -> None:
    """A store that we only look at, until Ctrl-C."""
    _server(site).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends in the same way whatever asks it to; the one of the library would raise the signal once more."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # This is what plain handlers run in; whatever must not wait behind reports has threads of its own, or none.
        anyio.to_thread.current_default_thread_limiter().total_tokens = REPORTS_AT_ONCE
        await super().startup(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        asked_by = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for number in asked_by:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in asked_by:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit  # asked twice
        self.should_exit = True


def _server(site: Site) -> _Server:
    _prepare(site)
    return _Server(configured(site))


def configured(site: Site) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(site),
        http=BoundedConnection,
        loop="asyncio",
        ws="none",
        lifespan="off",  # nothing of ours begins or ends with it
        log_config=None,
        access_log=False,  # an address may carry a token
        server_header=False,
        proxy_headers=False,  # no proxy in front of us can be trusted to name the client
        limit_concurrency=MOST_REQUESTS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=LAST_ANSWERS_WITHIN,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )


def _prepare(site: Site) -> None:
    """Files for as many clients as may come, and complaints without secrets, of what is our fault alone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Below that it tells of clients that speak no HTTP or are too many, as often as they please.
    log = logging.getLogger("uvicorn.error")
    log.setLevel(logging.ERROR)
    log.addFilter(_is_a_fault)
    site.hide("")  # reads the settings, so that their secrets are known before anybody complains
    # Who complains may be reading them, or wait for who does.
    sys.stderr = _WithoutSecrets(sys.stderr, site.hide_what_is_known)


def _is_a_fault(record: logging.LogRecord) -> bool:
    """Answers that are not waited for at our end are given up on purpose: neither that nor their number is news."""
    was_given_up = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not (was_given_up or "graceful shutdown" in record.getMessage())


class _WithoutSecrets(io.TextIOBase):
    """Whole lines at a time, so that no secret is cut in two."""

    def __init__(self, stream: TextIO, hide: Hide) -> None:
        self._stream = stream
        self._hide = hide
        self._begun = ""
        # Of what is thrown away while a line is written, a warning may come from the same thread.
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                self._stream.write(self._hide(line) + "\n")
        return len(text)

    def flush(self) -> None:
        with self._lock:
            self._stream.flush()
