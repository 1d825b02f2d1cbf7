"""Clients of trackers for a server that a test has a script for, and what went wrong for them."""

from __future__ import annotations

import pytest

from sortie.errors import TrackerError
from sortie.trackers.rest_client import RestClient
from tests.servers.scripted import ScriptedServer

TOKEN = "ghp_0123456789abcdef"


def client_of(server: ScriptedServer, **options) -> RestClient:
    async def authorization() -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}

    usual = {"endpoint": server.url, "authorization": authorization, "calls_per_minute": 1000, "secrets": [TOKEN]}
    return RestClient("Example", **{**usual, **options})


async def failure_of(call) -> TrackerError:
    with pytest.raises(TrackerError) as failure:
        await call
    return failure.value
