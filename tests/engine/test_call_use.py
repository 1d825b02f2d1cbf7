"""What the server of a tracker allows is left in the store after looks, for commands that read nothing else."""

from __future__ import annotations

import anyio
import pytest

from sortie.core import events as ev
from sortie.store.call_use import CallFigures, call_figures
from sortie.store.connect import connect_readonly
from sortie.trackers.tracker import CallUse

from ..sources.listing_tracker import ListingTracker, issue
from .tracker_scene import Scene


class Counted(ListingTracker):
    use: object = CallUse(made=3, per_minute=60, limit=5000, remaining=4988, resets_at=2e9, held_until=None)

    def call_use(self) -> object:
        if isinstance(self.use, Exception):
            raise self.use
        return self.use


def figures(its: Scene) -> CallFigures | None:
    return call_figures(connect_readonly(its.directory / "store.db"))


async def left_by(its: Scene) -> CallFigures:
    while not (its.directory / "store.db").exists() or (found := figures(its)) is None:
        await anyio.sleep(0.01)
    return found


async def test_what_the_server_allows_is_left_in_the_store(tracked):
    its = tracked()
    its.tracker = Counted([issue("a")])
    async with its.running():
        await its.heard.wait(ev.Opened)
        found = await left_by(its)
    assert found == CallFigures(
        as_of=its.clock.now(), made=3, per_minute=60, limit=5000, remaining=4988, resets_at=2e9
    )


async def test_that_nothing_is_asked_for_a_while_is_left_there_too(tracked):
    """The look that was told so failed."""
    its = tracked()
    its.tracker = Counted([])
    its.tracker.use = CallUse(made=3, per_minute=60, held_until=its.clock.now() + 600)
    its.limited(600.0)
    async with its.running():
        await its.heard.wait(ev.Opened)
        found = await left_by(its)
    assert found.held_until == its.clock.now() + 600


ODD = CallUse(made="many", per_minute=60)  # type: ignore[arg-type]
NONE_AT_ALL = CallUse(made=0, per_minute=0)
USELESS = {"none": None, "fails": KeyError("oops"), "odd": "many", "text": ODD, "no budget": NONE_AT_ALL}


@pytest.mark.parametrize("use", USELESS.values(), ids=USELESS.keys())
async def test_a_tracker_that_has_nothing_to_tell_of_it_leaves_nothing(tracked, use):
    its = tracked()
    its.tracker = Counted([issue("a")])
    its.tracker.use = use
    async with its.running():
        await its.heard.wait(ev.Settled, "a")
        await its.asked("list", 2)
    assert figures(its) is None
