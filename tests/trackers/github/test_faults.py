"""What goes wrong between here and GitHub has one outcome each, and no secret is in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable

import anyio
import pytest

from sortie.errors import TrackerError
from sortie.trackers.github.github import GitHubTracker
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import REPOSITORY
from tests.servers.fault_proxy import (
    Answer,
    bad_credentials,
    dropped,
    half_of_a_document,
    html,
    refused,
    secondary_limit,
    too_many,
    used_up,
)
from tests.servers.github_scene import ISSUES, TOKEN, GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]

CALLS: dict[str, Callable[[GitHubTracker, str], Awaitable[object]]] = {
    "candidates": lambda tracker, _: tracker.fetch_candidates(),
    "issue": lambda tracker, number: tracker.fetch_issue(number),
    "states": lambda tracker, number: tracker.fetch_states([number]),
    "move": lambda tracker, number: tracker.transition(number, "In Review"),
    "comment": lambda tracker, number: tracker.comment(number, "hello"),
}
FAULTS: dict[str, tuple[Callable[[], Answer], str]] = {
    "401": (bad_credentials, TrackerError.AUTH),
    "403": (lambda: refused(403, "Resource not accessible by personal access token"), TrackerError.AUTH),
    "429": (too_many, TrackerError.RATE_LIMITED),
    "secondary": (secondary_limit, TrackerError.RATE_LIMITED),
    "used up": (used_up, TrackerError.RATE_LIMITED),
    "502": (lambda: Answer(502, b"<html>bad gateway</html>"), TrackerError.API),
    "422": (lambda: refused(422, "Validation Failed"), TrackerError.PAYLOAD),
    "dropped": (dropped, TrackerError.TRANSPORT),
    "echo": (lambda: refused(401, f"The token {TOKEN} is not valid"), TrackerError.AUTH),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_is_an_error_of_its_kind_without_the_token(
    scene: GitHubScene, call: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    answer, kind = FAULTS[fault]
    scene.server.fail(".*", answer(), times=99)
    with pytest.raises(TrackerError) as failure:
        await CALLS[call](tracker, number)
    assert failure.value.kind == kind
    assert (failure.value.until is not None) == (kind == TrackerError.RATE_LIMITED)
    told = [str(failure.value), repr(failure.value), repr(failure.value.__cause__), repr(tracker), caplog.text]
    assert TOKEN not in " ".join(told)
    await tracker.aclose()


@pytest.mark.parametrize("call", ["candidates", "issue", "states"])
@pytest.mark.parametrize("answer", [half_of_a_document(), html(), Answer(200, b""), Answer(200, b'"text"')])
async def test_an_answer_that_is_no_issue_is_an_error_and_no_empty_list(
    scene: GitHubScene, call: str, answer: Answer
) -> None:
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    scene.server.fail(".*", answer, times=99)
    with pytest.raises(TrackerError) as failure:
        await CALLS[call](tracker, number)
    assert failure.value.kind == TrackerError.PAYLOAD
    await tracker.aclose()


@pytest.mark.parametrize("answer", [refused(500), refused(503), dropped()])
async def test_what_passes_is_tried_again(scene: GitHubScene, answer: Answer) -> None:
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    for on in (f"GET {ISSUES}/{number}", f"GET {ISSUES}\\?.*Todo.*", "POST .*/labels"):
        scene.server.fail(on, answer, times=1)
    assert len((await tracker.fetch_candidates()).issues) == 1
    await tracker.transition(number, "In Progress")
    assert scene.labels(int(number)) == ["In Progress"]
    await tracker.aclose()


async def test_a_limit_holds_all_calls_until_it_ends_and_is_told(scene: GitHubScene) -> None:
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    scene.server.fail(".*", secondary_limit(), times=1)
    with pytest.raises(TrackerError):
        await tracker.fetch_candidates()
    scene.server.forget()
    with pytest.raises(TrackerError) as failure:
        await tracker.comment(number, "hello")
    assert failure.value.kind == TrackerError.RATE_LIMITED
    assert failure.value.until == tracker.call_use().held_until
    assert scene.server.asked() == []
    await tracker.aclose()


async def test_who_asks_what_the_search_does_not_take_is_told_what_to_check(scene: GitHubScene) -> None:
    scene.server.fail("GET /search/.*", refused(422, "Validation Failed"))
    tracker = scene.tracker(query_filter="label:")
    with pytest.raises(TrackerError, match="Validation Failed") as failure:
        await tracker.fetch_candidates()
    await tracker.aclose()
    assert (failure.value.kind, failure.value.passing) == (TrackerError.PAYLOAD, False)
    assert "Check tracker.query_filter, tracker.project" in str(failure.value)


async def test_a_page_that_fails_makes_no_short_list(scene: GitHubScene) -> None:
    """Half a list would look as if the rest had left."""
    for n in range(150):
        scene.open(f"Task {n}", "Todo")
    tracker = scene.tracker()
    await tracker.fetch_candidates()
    scene.edit(1, title="Changed meanwhile")
    scene.server.fail(f"GET {ISSUES}\\?.*page=2.*", refused(500), times=3)
    with pytest.raises(TrackerError):
        await tracker.fetch_candidates()
    found = await tracker.fetch_candidates()
    assert len(found.issues) == 150
    assert found.changed == frozenset(
        {"1"}
    )  # though GitHub says now that no page changed since the look that failed
    await tracker.aclose()


async def test_slow_bytes_are_waited_for_and_silence_can_be_left(scene: GitHubScene) -> None:
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker()
    record = json.dumps(scene.record(int(number))).encode()
    scene.server.fail(f"GET {ISSUES}/{number}", scene.server.slow(record))
    assert await tracker.fetch_states([number]) == {number: "Todo"}
    scene.server.fail("PATCH .*", scene.server.silence())
    with anyio.move_on_after(0.3) as waiting:
        await tracker.transition(number, "Done")
    assert waiting.cancelled_caught
    await tracker.transition(number, "Done")
    assert await tracker.fetch_states([number]) == {number: "Done"}
    await tracker.aclose()


async def test_a_link_to_another_server_is_not_followed(scene: GitHubScene) -> None:
    number = scene.open("Task", "Todo")
    body = json.dumps([scene.record(number)]).encode()
    link = '<https://elsewhere.example/repos/x/y/issues?page=2&per_page=100>; rel="next"'
    scene.server.fail(f"GET {ISSUES}\\?.*labels=Todo.*", Answer(200, body, {"link": link}))
    tracker = scene.tracker()
    found = await tracker.fetch_candidates()
    assert [issue.id for issue in found.issues] == [str(number)]
    assert all(asked.path.startswith(f"/repos/{REPOSITORY}/issues") for asked in scene.server.asked())
    await tracker.aclose()


async def test_calls_beyond_our_own_budget_wait_and_looks_leave_room_for_runs(scene: GitHubScene) -> None:
    number = str(scene.open("Task", "Todo"))
    tracker = scene.tracker(calls_per_minute=8)
    for _ in range(3):
        await tracker.fetch_candidates()
    with pytest.raises(TrackerError) as failure:
        await tracker.fetch_candidates()
    assert failure.value.kind == TrackerError.RATE_LIMITED
    await tracker.comment(number, "A run still may.")
    assert tracker.call_use().made == 7
    await tracker.aclose()
