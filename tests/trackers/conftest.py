"""A server that answers by a script, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from sortie.trackers.rest_client import RestClient
from tests.servers.scripted import ScriptedServer

from .client_scene import client_of


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer.running() as running:
        yield running


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[RestClient]:
    made = client_of(server)
    yield made
    await made.aclose()
