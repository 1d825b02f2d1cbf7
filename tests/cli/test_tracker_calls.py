"""`sortie status` and the calls of the tracker: what is current is told as such, what is old with its age."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sortie.store import Store
from sortie.store.call_use import CallFigures

from .scene import REVIEW


@pytest.fixture
def figures(scene):
    """Left in the store by a service that runs inside the block."""

    @asynccontextmanager
    async def left(age: float = 0.0, **more: Any):
        async with Store.open(scene.directory / ".sortie.db", holder={"pid": 1}) as store:
            told = {"made": 12, "per_minute": 60, **more}
            await store.keep_call_figures(CallFigures(as_of=time.time() - age, **told))
            yield

    return left


SERVER = {"limit": 5000, "remaining": 4988}


async def test_the_use_of_the_server_is_one_sentence(say, figures):
    resets_at = time.time() + 600
    async with figures(resets_at=resets_at, **SERVER):
        said, found = say("status").out, say("status", "--json").json()["tracker"]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(resets_at))
    assert f"tracker calls: 12 of 60 in the last minute; the server allows 4,988 of 5,000 more until {at}\n" in said
    as_of = found.pop("as_of")
    assert as_of.endswith("Z")
    assert found == {
        "calls_last_minute": 12,
        "calls_per_minute": 60,
        "limit": 5000,
        "remaining": 4988,
        "resets_at": at,
        "held_until": None,
    }


async def test_a_tracker_that_is_left_alone_is_named_with_the_time(say, figures):
    """Also when that was found out a while ago: nobody has asked since."""
    until = time.time() + 600
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))
    async with figures(age=300.0, held_until=until):
        assert f"The tracker is polled again at {at}, when its rate limit ends." in say("status").out
    async with figures(held_until=time.time() - 1):
        assert "asked again" not in say("status").out


async def test_old_figures_are_not_told_as_the_present(say, figures):
    async with figures(age=150.0, resets_at=time.time() - 60, **SERVER):
        assert "tracker calls: 12 of 60 in a minute, as it was 2m30s ago\n" in say("status").out
    async with figures(held_until=time.time() + 600):
        pass
    said = say("status").out  # its service is gone
    assert "in the last minute" not in said and "asked again" not in said
    assert "as it was " in said
    async with figures(age=2 * 86400.0):
        assert "tracker calls" not in say("status").out
        assert say("status", "--json").json()["tracker"] is None


def test_without_a_server_nothing_is_said(scene, say):
    scene.issue(1, REVIEW)
    scene.run("run", "--until-idle")
    assert "tracker calls" not in say("status").out
    assert say("status", "--json").json()["tracker"] is None
