"""A thousand readers at once: each hears what happens, one more is told to come back, and pages are served."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sortie.web.feed import MOST_STREAMS
from tests.store.sample import noted

from .event_reader import EventReader, ask, listening
from .live_server import DEADLINE, append, new_store, served


@pytest.fixture
def room_for_files() -> Iterator[None]:
    """Both ends of every connection are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * MOST_STREAMS + 500
    if before[1] < needed:
        pytest.skip(f"this user may not open {needed} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], needed), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("room_for_files")
def test_a_thousand_idle_readers_all_hear_what_happens(tmp_path):
    store = new_store(tmp_path / "sortie.db", noted("first"))
    with served(store) as server, ExitStack() as crowd:
        connections = []
        for _ in range(MOST_STREAMS):
            connection = socket.create_connection((server.host, server.port), timeout=DEADLINE)
            connections.append(crowd.enter_context(connection))
            ask(connection, server, "?after=0")
        readers = [EventReader(connection) for connection in connections]
        assert {reader.status for reader in readers} == {200}
        with listening(server) as one_more:
            assert (one_more.status, one_more.headers["retry-after"]) == (503, "10")
        assert server.get("/livez").status in (200, 503)
        append(store, noted("second"))
        assert all([one.seq for one in reader.changes(2)] == [1, 2] for reader in readers)
        # Whoever leaves makes room.
        connections[0].close()
        assert server.get("/api/v2/issues").status == 200
        while True:
            with listening(server, "?after=1") as next_one:
                if next_one.status == 200:
                    assert [one.seq for one in next_one.changes(1)] == [2]
                    break
