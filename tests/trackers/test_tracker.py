"""What holds for every tracker: the guard around it, numbered answers, and many issues fetched at once."""

from __future__ import annotations

import anyio
import pytest

from sortie.core.model import Issue
from sortie.errors import TrackerError
from sortie.testing.fakes import MemoryTracker
from sortie.tools.envelope import TRACKER_KINDS
from sortie.trackers.tracker import FETCHES_AT_ONCE, Candidates, GuardedTracker, fetch_each


def issue(number: int) -> Issue:
    return Issue(id=str(number), identifier=f"T-{number}", title="t", state="Todo")


class Failing(MemoryTracker):
    """Raises what is put into `errors`, by issue id; `asked` has the ids in the order of the calls."""

    def __init__(self, *issues: Issue, **errors: Exception) -> None:
        super().__init__(issues)
        self.errors = errors
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0

    async def fetch_candidates(self) -> Candidates:
        found = await super().fetch_candidates()
        if "candidates" in self.errors:
            raise self.errors.pop("candidates")
        return found

    async def fetch_issue(self, issue_id: str) -> Issue:
        self.asked.append(issue_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await anyio.sleep(0)
        self.at_once -= 1
        if f"of_{issue_id}" in self.errors:
            raise self.errors[f"of_{issue_id}"]
        return await super().fetch_issue(issue_id)


async def test_a_defect_comes_out_as_a_tracker_error():
    tracker = GuardedTracker(Failing(issue(1), of_1=KeyError("x")))
    with pytest.raises(TrackerError, match="the tracker failed: KeyError") as failure:
        await tracker.fetch_issue("1")
    assert failure.value.kind == TrackerError.API


async def test_a_rate_limit_comes_out_with_the_time_it_ends_and_agents_know_its_name():
    limit = TrackerError(TrackerError.RATE_LIMITED, "too many requests.", until=1234.5)
    with pytest.raises(TrackerError) as failure:
        await GuardedTracker(Failing(issue(1), of_1=limit)).fetch_issue("1")
    assert (failure.value.kind, failure.value.until) == ("tracker_rate_limited", 1234.5)
    assert TrackerError.RATE_LIMITED in TRACKER_KINDS


async def test_an_answer_that_got_lost_makes_everybody_compare_all():
    """The tracker thinks it has told what changed, but it failed on the way: nobody may go by its next answer."""
    inner = Failing(issue(1), issue(2))
    tracker = GuardedTracker(inner)
    first = await tracker.fetch_candidates()
    await inner.transition("1", "Todo")
    await inner.comment("2", "hello")
    inner.errors["candidates"] = ValueError("x")
    with pytest.raises(TrackerError):
        await tracker.fetch_candidates()
    second = await tracker.fetch_candidates()
    assert second.changed == frozenset()
    assert second.changed_since(first) is None
    assert (await tracker.fetch_candidates()).changed_since(second) == frozenset()


async def test_answers_of_two_trackers_are_never_taken_for_each_other():
    one, other = GuardedTracker(MemoryTracker([issue(1)])), GuardedTracker(MemoryTracker([issue(2)]))
    first = await one.fetch_candidates()
    await other.fetch_candidates()
    assert (await other.fetch_candidates()).changed_since(first) is None


async def test_an_unchanged_tracker_says_so_however_often_it_is_asked():
    tracker = GuardedTracker(MemoryTracker([issue(1)]))
    first = await tracker.fetch_candidates()
    assert first.changed_since(None) is None
    for _ in range(3):
        assert (await tracker.fetch_candidates()).changed_since(first) == frozenset()


async def test_many_issues_are_fetched_a_few_at_once_and_one_that_fails_does_not_spoil_the_rest():
    broken = TrackerError(TrackerError.PAYLOAD, "broken.")
    tracker = Failing(*(issue(n) for n in range(100)), of_7=broken, of_8=TimeoutError())
    found, failed = await fetch_each(tracker, [str(n) for n in range(101)])
    assert {*found} == {str(n) for n in range(100)} - {"7", "8"}
    assert {i: error.kind for i, error in failed.items()} == {
        "7": TrackerError.PAYLOAD,
        "8": TrackerError.TRANSPORT,
        "100": TrackerError.NOT_FOUND,
    }
    assert tracker.most_at_once == FETCHES_AT_ONCE
    assert await fetch_each(tracker, []) == ({}, {})


async def test_a_tracker_that_is_asked_too_often_is_asked_no_more():
    limit = TrackerError(TrackerError.RATE_LIMITED, "too many requests.", until=1234.5)
    tracker = Failing(*(issue(n) for n in range(100)), of_3=limit)
    found, failed = await fetch_each(tracker, [str(n) for n in range(100)])
    assert len(tracker.asked) <= 2 * FETCHES_AT_ONCE
    assert failed["99"] is limit
    assert len(found) + len(failed) == 100
