"""A server that is busy with reports: who asks whether it lives is answered, and its end is no complaint."""

from __future__ import annotations

import io
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException

import anyio
import anyio.to_thread
import pytest

from sortie.web import server as web_server
from sortie.web.site import Site
from sortie.web.static import address

from .live_server import LiveServer, new_store, served

# More than there are threads for them.
READERS = 60


class Slow:
    """Reports that take until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over = threading.Event()
        self.begun = threading.Event()
        monkeypatch.setattr(Site, "status", self._wait)

    def _wait(self, *_: object) -> None:
        self.begun.set()
        self.over.wait(20.0)
        raise OSError("nothing to tell")

    def asked_of(self, server: LiveServer, readers: ThreadPoolExecutor) -> None:
        for _ in range(READERS):
            readers.submit(_ask, server)
        assert self.begun.wait(10.0)
        time.sleep(0.3)


def _ask(server: LiveServer) -> None:
    with suppress(OSError, HTTPException):
        server.get("/", accept="text/html")


@pytest.fixture
def slow(monkeypatch):
    found = Slow(monkeypatch)
    yield found
    found.over.set()


@pytest.fixture
def complaints(monkeypatch) -> Iterator[io.StringIO]:
    """What the server says to whoever started it."""
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    log, handler = logging.getLogger("uvicorn.error"), logging.StreamHandler(said)
    before, level = [*log.filters], log.level
    log.addHandler(handler)
    yield said
    log.removeHandler(handler)
    log.filters[:] = before
    log.setLevel(level)


@pytest.mark.parametrize("path", ["/livez", address("sortie.css")])
def test_what_reads_nothing_waits_for_no_report(tmp_path, slow, path):
    with ThreadPoolExecutor(READERS) as readers, served(new_store(tmp_path / "sortie.db")) as server:
        slow.asked_of(server, readers)
        began = time.monotonic()
        assert server.get(path).status == 200
        assert time.monotonic() - began < 2.0
        slow.over.set()


@pytest.mark.parametrize(
    ("path", "content_type", "body", "status"),
    [
        ("/issues/T-1/start", "application/x-www-form-urlencoded", "", 303),
        ("/api/v2/commands", "application/json", '{"verb": "refresh"}', 202),
    ],
    ids=["page", "api"],
)
def test_a_decision_waits_for_no_report(tmp_path, slow, path, content_type, body, status):
    with ThreadPoolExecutor(READERS) as readers, served(new_store(tmp_path / "sortie.db")) as server:
        bearer = server.bearer()
        slow.asked_of(server, readers)
        began = time.monotonic()
        answer = server.post(path, body, Authorization=bearer, Origin=server.url, Content_Type=content_type)
        assert (answer.status, time.monotonic() - began < 2.0) == (status, True)
        slow.over.set()


async def test_few_reports_are_made_at_once(tmp_path):
    """Many threads that compute leave the loop no time to answer anybody."""
    server = web_server._Server(web_server.configured(Site(new_store(tmp_path / "sortie.db"), tmp_path)))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listening])
            with anyio.fail_after(10.0):
                while not server.started:
                    await anyio.sleep(0.01)
            limiter = anyio.to_thread.current_default_thread_limiter()
            assert limiter.total_tokens == web_server.REPORTS_AT_ONCE
            server.should_exit = True


def test_answers_that_are_cut_off_at_the_end_are_nobodys_fault(tmp_path, slow, complaints):
    with ThreadPoolExecutor(READERS) as readers, served(new_store(tmp_path / "sortie.db")) as server:
        web_server._prepare(server.site)
        slow.asked_of(server, readers)
        threading.Timer(3.0, slow.over.set).start()
    assert complaints.getvalue() == ""
