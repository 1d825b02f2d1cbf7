"""Issues that were handed over are followed until a person moves them on, for a few calls a look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sortie.core import events as ev
from sortie.core.model import Issue
from sortie.core.observe import Look, in_review, observe
from sortie.core.policy import Policy
from sortie.core.schedule import Schedule
from sortie.errors import TrackerError
from sortie.sources.reviews import ASKED_IN_A_LOOK, MOST_FOLLOWED, Reviews

from .listing_tracker import ListingTracker

pytestmark = pytest.mark.anyio

POLICY = Policy(active_states=("todo",), terminal_states=("done",), handoff_state="Review")


class InAFile(ListingTracker):
    def watched_files(self) -> tuple[Path, ...]:
        return (Path("issues.json"),)


class Scene:
    """Issues that were handed over, the first one first; in a file, or on a server."""

    def __init__(self, count: int, *, server: bool = False) -> None:
        keys = [str(number) for number in range(count)]
        issues = [Issue(id=key, identifier=f"D-{key}", title="t", state="review") for key in keys]
        self.tracker = ListingTracker(issues) if server else InAFile(issues)
        self.schedule = Schedule(POLICY)
        for issue in issues:
            view = ev.View(id=issue.id, identifier=issue.identifier, title="t", state="todo")
            self.see(view)
            self.see(ev.View(id=issue.id, identifier=issue.identifier, title="t", state="review"))
        self.reviews = Reviews()

    def see(self, view: ev.View) -> None:
        self.schedule.apply(ev.IssueSeen(at=1.0, issue_id=view.id, view=view))

    async def look(self, *listed: str) -> dict[str, str]:
        states = await self.reviews.states(self.schedule, listed, self.tracker)
        issues = {key: self.tracker.issues[key] for key in listed}
        for event in observe(self.schedule, Look(issues=issues, states=states, changed=frozenset()), 2.0):
            self.schedule.apply(event)
        return states

    @property
    def waiting(self) -> list[str]:
        return in_review(self.schedule)


async def test_an_issue_waits_for_its_review_until_it_is_moved_on_or_gone():
    scene = Scene(3)
    await scene.look()
    assert scene.waiting == ["2", "1", "0"]
    scene.tracker.change("1", state="done")
    del scene.tracker.issues["2"]
    await scene.look()
    assert scene.waiting == ["0"]
    assert scene.schedule.issues["1"].state == "done"  # by which its workspace is looked at
    await scene.look()
    assert {*scene.schedule.issues} == {"0"}


async def test_one_that_is_active_again_is_told_by_the_list_alone():
    scene = Scene(1)
    scene.tracker.change("0", state="todo")
    assert await scene.look("0") == {}
    assert scene.tracker.calls["states"] == 0
    assert scene.schedule.issues["0"].state == "todo"


async def test_a_server_is_asked_for_a_few_of_many_by_turns_until_each_was_asked_for():
    scene = Scene(3 * ASKED_IN_A_LOOK - 1, server=True)
    for issue in [*scene.tracker.issues]:
        scene.tracker.change(issue, state="done")
    left = []
    for _ in range(6):
        await scene.look()
        left.append(len(scene.waiting))
    assert scene.tracker.calls["states"] <= 6
    assert left[0] == 2 * ASKED_IN_A_LOOK - 1
    assert left[-1] == 0


@pytest.mark.parametrize("kind", [TrackerError.TRANSPORT, TrackerError.RATE_LIMITED, TrackerError.AUTH])
async def test_a_tracker_that_does_not_tell_changes_nothing(kind):
    scene = Scene(2)
    scene.tracker.limits, scene.tracker.limit = ("states",), TrackerError(kind, "no.")
    assert await scene.look() == {"0": "review", "1": "review"}
    assert scene.waiting == ["1", "0"]


async def test_only_those_that_were_handed_over_last_are_followed():
    scene = Scene(MOST_FOLLOWED + 5, server=True)
    await scene.look()
    assert len(scene.waiting) == MOST_FOLLOWED
    assert scene.waiting[0] == str(MOST_FOLLOWED + 4)


async def test_what_we_hold_besides_is_followed_as_that():
    scene = Scene(1)
    parked: Any = {"kind": "operator", "reason": "by hand", "fingerprint": ""}
    scene.schedule.apply(ev.Parked(at=2.0, issue_id="0", identifier="D-0", park=ev.Park(**parked)))
    assert scene.waiting == []


async def test_without_a_state_to_hand_over_to_nothing_is_followed():
    scene = Scene(1)
    scene.schedule.apply(ev.PolicySet(at=3.0, policy=Policy(active_states=("todo",), terminal_states=("done",))))
    assert scene.waiting == []
