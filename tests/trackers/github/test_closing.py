"""Closing and opening issues on GitHub: no label of anybody is lost, and every call on the way may be the last."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sortie.errors import TrackerError
from tests.npm import TIME_TO_INSTALL
from tests.servers.emulate import REPOSITORY
from tests.servers.fault_proxy import Answer, refused
from tests.servers.github_scene import GitHubScene

pytestmark = [pytest.mark.anyio, TIME_TO_INSTALL]

WRITES = "(POST|PATCH|PUT|DELETE) .*"


@pytest.mark.parametrize(
    ("state", "labels", "reason"),
    [("Done", ["Done", "bug"], "completed"), ("Wontfix", ["Wontfix", "bug"], "not_planned")],
)
async def test_a_terminal_state_closes_the_issue_and_says_why(
    scene: GitHubScene, state: str, labels: list[str], reason: str
) -> None:
    number = scene.open("Task", "bug", "Todo")
    tracker = scene.tracker()
    await tracker.transition(str(number), state)
    record = scene.record(number)
    assert (record["state"], record["state_reason"], scene.labels(number)) == ("closed", reason, labels)
    assert [asked.method for asked in scene.server.asked(WRITES)] == ["POST", "PATCH", "DELETE"]
    scene.server.forget()
    await tracker.transition(str(number), "Todo")
    assert (scene.record(number)["state"], scene.labels(number)) == ("open", ["Todo", "bug"])
    assert [asked.method for asked in scene.server.asked(WRITES)] == ["POST", "PATCH", "DELETE"]
    await tracker.aclose()


async def test_open_and_closed_are_states_without_a_label(scene: GitHubScene) -> None:
    number = scene.open("Task", "bug", "Todo")
    tracker = scene.tracker()
    for state in ("closed", "open"):
        await tracker.transition(str(number), state)
        assert (scene.record(number)["state"], scene.labels(number)) == (state, ["bug"])
    await tracker.transition(str(number), "Todo")
    await tracker.transition(str(number), "open")
    assert scene.labels(number) == ["bug"]
    assert await tracker.fetch_states([str(number)]) == {str(number): "open"}
    await tracker.aclose()


@pytest.mark.parametrize(("before", "target"), [("Todo", "Done"), ("Done", "Todo"), ("Done", "open")])
async def test_a_label_that_somebody_gives_while_an_issue_is_closed_or_opened_stays(
    scene: GitHubScene, before: str, target: str
) -> None:
    """Also one that came after we looked which labels there are."""
    number = scene.open("Task", before, "bug")
    scene.edit(number, state="closed" if before == "Done" else "open")
    tracker = scene.tracker()

    def labelled_meanwhile(record: dict[str, Any]) -> dict[str, Any]:
        del scene.overlay.spoiled[number]
        scene.edit(number, labels=[before, "bug", "security"])
        return record

    scene.overlay.spoiled[number] = labelled_meanwhile
    await tracker.transition(str(number), target)
    assert scene.labels(number) == sorted({"bug", "security", target} - {"open"})
    assert scene.record(number)["state"] == ("closed" if target == "Done" else "open")
    await tracker.aclose()


@pytest.mark.parametrize(("before", "target"), [("Todo", "Done"), ("Done", "Todo"), ("Done", "In Review")])
@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
async def test_closing_or_opening_that_was_cut_short_reads_as_before_or_after_and_is_completed_later(
    scene: GitHubScene, method: str, before: str, target: str
) -> None:
    number = scene.open("Task", before, "bug")
    scene.edit(number, state="closed" if before == "Done" else "open")
    tracker, other = scene.tracker(), scene.tracker()
    scene.server.fail(f"{method} .*", refused(500), times=3)
    with pytest.raises(TrackerError):
        await tracker.transition(str(number), target)
    reads = {str(number): target if method == "DELETE" and target != "In Review" else before}
    assert await other.fetch_states([str(number)]) == await tracker.fetch_states([str(number)]) == reads
    await other.transition(str(number), target)
    assert scene.labels(number) == sorted([target, "bug"])
    assert scene.record(number)["state"] == ("closed" if target == "Done" else "open")
    await tracker.aclose()
    await other.aclose()


async def test_what_github_answers_and_does_not_do_is_an_error(scene: GitHubScene) -> None:
    number = scene.open("Task", "Done")
    tracker = scene.tracker()
    as_it_is = Answer(200, json.dumps(scene.record(number)).encode(), {"content-type": "application/json"})
    scene.server.fail("PATCH .*", as_it_is)
    with pytest.raises(TrackerError) as failure:
        await tracker.transition(str(number), "Done")
    assert failure.value.kind == TrackerError.AUTH
    assert f"did not close {REPOSITORY}#{number}" in str(failure.value)
    await tracker.aclose()


@pytest.mark.parametrize(("labels", "target"), [(["bug"], "Done"), (["bug", "Wontfix"], "Done")])
async def test_what_was_closed_as_not_planned_is_done_by_its_label(
    scene: GitHubScene, labels: list[str], target: str
) -> None:
    """GitHub keeps the reason until the issue is opened."""
    number = scene.open("Task", *labels)
    scene.edit(number, state="closed", state_reason="not_planned")
    tracker = scene.tracker()
    await tracker.transition(str(number), target)
    assert scene.labels(number) == ["Done", "bug"]
    assert scene.record(number)["state_reason"] == "not_planned"
    assert await tracker.fetch_states([str(number)]) == {str(number): target}
    await tracker.aclose()


async def test_a_state_that_the_reason_of_a_closed_issue_rules_out_is_refused_before_anything_is_written(
    scene: GitHubScene,
) -> None:
    number = scene.open("Task", "Wontfix")
    scene.edit(number, state="closed", state_reason="not_planned")
    tracker = scene.tracker()
    with pytest.raises(TrackerError) as failure:
        await tracker.transition(str(number), "closed")
    assert (failure.value.kind, failure.value.passing) == (TrackerError.PAYLOAD, False)
    assert 'was closed (not_planned): that is the state "Wontfix"' in str(failure.value)
    assert scene.server.asked(WRITES) == []
    await tracker.transition(str(number), "Todo")
    await tracker.transition(str(number), "closed")
    assert await tracker.fetch_states([str(number)]) == {str(number): "Done"}
    await tracker.aclose()
