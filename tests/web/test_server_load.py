"""A server that is busy with reports: who asks whether it lives is answered, and its end is no complaint."""

from __future__ import annotations

import http.client
import io
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from sqlite3 import Connection

import anyio
import anyio.to_thread
import pytest

from sortie.reports.status import Status
from sortie.web import server as web_server
from sortie.web.site import Site
from sortie.web.static import address

from .live_server import DEADLINE, WORKFLOW, LiveServer, new_store, serving

# More than there are threads for them.
READERS = 60
# As many as the library lets run at once; a server that is started as ours is lets fewer.
THREADS = 40


class SlowSite(Site):
    """Its reports take until they are let go."""

    def __init__(self, directory: Path) -> None:
        place = directory / "WORKFLOW.md"
        place.write_text(WORKFLOW)
        super().__init__(new_store(directory / "sortie.db"), place)
        self.over = threading.Event()
        self.begun = threading.Semaphore(0)

    def status(self, db: Connection) -> Status:
        self.begun.release()
        self.over.wait(DEADLINE)
        raise OSError("nothing to tell")

    def asked_of(self, server: LiveServer, readers: ThreadPoolExecutor) -> None:
        """Until there is no thread left for a further one."""
        for _ in range(READERS):
            readers.submit(_ask, server)
        for _ in range(THREADS):
            assert self.begun.acquire(timeout=DEADLINE)


def _ask(server: LiveServer) -> None:
    with suppress(OSError, HTTPException):
        server.get("/", accept="text/html")


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowSite]:
    site = SlowSite(tmp_path)
    yield site
    site.over.set()


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
def test_what_reads_nothing_waits_for_no_report(slow, path):
    with ThreadPoolExecutor(READERS) as readers, serving(slow) as server:
        slow.asked_of(server, readers)
        assert server.get(path).status == 200
        assert not slow.over.is_set()
        slow.over.set()


@pytest.mark.parametrize(
    ("path", "content_type", "body", "status"),
    [
        ("/issues/T-1/start", "application/x-www-form-urlencoded", "", 303),
        ("/api/v2/commands", "application/json", '{"verb": "refresh"}', 202),
    ],
    ids=["page", "api"],
)
def test_a_decision_waits_for_no_report(slow, path, content_type, body, status):
    with ThreadPoolExecutor(READERS) as readers, serving(slow) as server:
        bearer = server.bearer()
        slow.asked_of(server, readers)
        answer = server.post(path, body, Authorization=bearer, Origin=server.url, Content_Type=content_type)
        assert (answer.status, slow.over.is_set()) == (status, False)
        slow.over.set()


class ReadingSite(Site):
    """Who asks for what `slow` names waits for a disk."""

    def __init__(self, directory: Path, slow: str) -> None:
        self.slow = slow
        place = directory / "WORKFLOW.md"
        place.write_text(WORKFLOW)
        self.over, self.asked = threading.Event(), threading.Semaphore(0)
        super().__init__(new_store(directory / "sortie.db"), place)

    def hide(self, text: str) -> str:
        self._wait("hide")
        return super().hide(text)

    @property
    def is_served(self) -> bool:
        self._wait("is_served")
        return super().is_served

    def _wait(self, name: str) -> None:
        if name == self.slow:
            self.asked.release()
            self.over.wait(DEADLINE)


@pytest.mark.parametrize(("path", "slow"), [("/issues/T-1/start", "hide"), ("/issues/T-1/nonsense", "is_served")])
def test_nobody_waits_for_what_is_read_to_answer_a_decision(tmp_path, path, slow):
    site = ReadingSite(tmp_path, slow)
    with ThreadPoolExecutor(1) as decider, serving(site) as server:
        try:
            headers = {"Authorization": server.bearer(), "Origin": server.url}
            decision = decider.submit(server.request, "POST", path, headers)
            assert site.asked.acquire(timeout=DEADLINE)
            with closing(http.client.HTTPConnection(server.host, server.port, timeout=DEADLINE / 3)) as connection:
                connection.request("GET", "/livez")
                assert connection.getresponse().status == 200
            assert not decision.done()
        finally:
            site.over.set()
        assert decision.result().status in (303, 404)


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


def test_answers_that_are_cut_off_at_the_end_are_nobodys_fault(slow, complaints):
    with ThreadPoolExecutor(READERS) as readers, serving(slow) as server:
        web_server._prepare(server.site)
        slow.asked_of(server, readers)
        # Its threads go on when it has stopped to wait for them; before that it cannot end.
        threading.Timer(web_server.LAST_ANSWERS_WITHIN + 1.0, slow.over.set).start()
    assert complaints.getvalue() == ""
