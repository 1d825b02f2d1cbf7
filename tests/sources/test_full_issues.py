"""A look costs a bounded number of calls, and what only full records tell of issues is known all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import pytest
from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.model import Blocker, Comment, Issue
from sortie.core.observe import observe
from sortie.core.schedule import Schedule
from sortie.errors import TrackerError
from sortie.sources.full_issues import BLOCKED_IN_A_LOOK, PARKED_IN_A_LOOK, FullIssues
from sortie.sources.issues import IssueSource
from sortie.trackers.tracker import FETCHES_AT_ONCE
from sortie.workflow.reloader import Reloader

from .listing_tracker import ListingTracker, issue

WORKFLOW = """---
tracker: {kind: file, active_states: [todo], terminal_states: [done]}
agent: {kind: mock}
---
Go
"""


def names(number: int) -> list[str]:
    return [f"t{n:03}" for n in range(number)]


class Looks:
    """Looks of a source at a tracker, each made part of one schedule."""

    def __init__(self, source: IssueSource, tracker: ListingTracker) -> None:
        self.source = source
        self.tracker = tracker
        self.schedule = Schedule(source.policy)

    async def look(self) -> list[str]:
        """Who is asked for in full."""
        self.tracker.fetched.clear()
        for event in observe(self.schedule, await self.source.look(self.schedule), 1.0):
            self.schedule.apply(event)
        return list(self.tracker.fetched)

    def park(self, *issues: str) -> None:
        park = ev.Park(kind="operator", reason="stopped", fingerprint="")
        for one in issues:
            self.schedule.apply(ev.Parked(at=0.0, issue_id=one, identifier=one, park=park))

    def fingerprint(self, issue_id: str) -> str:
        return self.schedule.issues[issue_id].fingerprint

    def blocked_by(self, issue_id: str) -> tuple[str, ...]:
        return self.schedule.issues[issue_id].blocked_by

    async def hold(self, *issue_ids: str) -> None:
        """As the engine does that finds blockers when it is about to start a run."""
        for one in issue_ids:
            found = await self.source.fetch(one)
            view = replace(self.schedule.issues[one], blocked_by=tuple(b.identifier for b in found.blocked_by))
            self.schedule.apply(ev.IssueSeen(at=1.0, issue_id=one, view=view))

    def restarted(self) -> Looks:
        again = Looks(make_source(self.source.config.path, self.tracker), self.tracker)
        again.schedule = self.schedule
        return again


def make_source(workflow, tracker, full: FullIssues | None = None) -> IssueSource:
    return IssueSource(Reloader(workflow, environ={}), {}, tracker=tracker, full=full)


@pytest.fixture
def looks(tmp_path):
    def make(*issues: Issue, patience: float = 10.0, settling: float = 60.0) -> Looks:
        workflow = tmp_path / "WORKFLOW.md"
        workflow.write_text(WORKFLOW)
        tracker = ListingTracker(issues)
        return Looks(make_source(workflow, tracker, FullIssues(patience, settling)), tracker)

    return make


class Broken(ListingTracker):
    """Cannot tell where issues went, and while it tries to, the run of one of them ends because that is gone."""

    schedule: Schedule

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        self.schedule.apply(ev.IssueLeft(at=1.0, issue_id="gone", identifier="gone"))
        raise TrackerError(TrackerError.API, f"{len(issue_ids)} of them are broken.")


async def test_issues_that_left_the_list_and_cannot_be_read_are_where_they_were(tmp_path):
    workflow, tracker = tmp_path / "WORKFLOW.md", Broken([issue("a"), issue("gone"), issue("b")])
    workflow.write_text(WORKFLOW)
    its = Looks(make_source(workflow, tracker), tracker)
    its.park("a", "gone")
    await its.look()
    for name in ("a", "gone"):
        await tracker.transition(name, "review")
    tracker.schedule = its.schedule
    found = await its.source.look(its.schedule)
    assert (found.states, [*found.issues]) == ({"a": "todo"}, ["b"])
    assert "2 of them are broken" in found.problems[0]


# -- parked issues ----------------------------------------------------------------------------------------------


async def test_a_parked_issue_is_fetched_when_it_changed_and_else_never(looks):
    its = looks(issue("a"), issue("b"), issue("free"))
    its.park("a", "b")
    assert await its.look() == ["a", "b"]
    known = its.fingerprint("a")
    assert known
    for _ in range(3):
        assert await its.look() == []
        assert its.fingerprint("a") == known
    its.tracker.change("a", comments=(Comment("1", "ann", "Yes."),), updated_at="2")
    assert await its.look() == ["a"]
    assert its.fingerprint("a") not in ("", known)
    assert await its.look() == []
    assert its.tracker.calls == {"list": 6, "full": 3}


async def test_what_was_said_within_the_second_of_our_own_write_is_heard_a_little_later(looks):
    """Redmine and GitHub tell times in whole seconds: such an answer of a person changes nothing that is listed."""
    its = looks(issue("a"), settling=0.0)
    its.park("a")
    assert await its.look() == ["a"]
    before = its.fingerprint("a")
    its.tracker.change("a", comments=(Comment("1", "ann", "Yes."),))
    assert await its.look() == ["a"]
    assert its.fingerprint("a") not in ("", before)
    assert [await its.look() for _ in range(3)] == [[]] * 3, "and then it is known"


async def test_what_is_compared_as_a_whole_does_not_lose_what_was_fetched_before(looks):
    """Where a tracker cannot tell what changed, every issue of every look is compared."""
    its = looks(issue("a"))
    its.park("a")
    await its.look()
    known = its.fingerprint("a")
    its.source._last_answer = None
    assert await its.look() == []
    assert its.fingerprint("a") == known


async def test_an_issue_without_a_date_is_fetched_at_every_look(looks):
    its = looks(issue("a", updated_at=""))
    its.park("a")
    assert [await its.look() for _ in range(3)] == [["a"]] * 3


async def test_a_failure_keeps_it_due_and_spoils_no_other(looks):
    its = looks(issue("a"), issue("b"))
    its.park("a", "b")
    its.tracker.refused = {"a"}
    assert await its.look() == ["a", "b"]
    assert (its.fingerprint("a"), its.fingerprint("b") != "") == ("", True)
    its.tracker.refused = set()
    assert await its.look() == ["a"]
    assert its.fingerprint("a")


async def test_one_that_is_parked_again_is_fetched_again(looks):
    its = looks(issue("a"))
    its.park("a")
    await its.look()
    its.schedule.apply(ev.Unparked(at=1.0, issue_id="a", identifier="A", why="a person freed it"))
    assert await its.look() == []
    its.park("a")
    assert await its.look() == ["a"]


async def test_many_parked_issues_are_fetched_over_several_looks_and_after_a_restart_once_more(looks):
    """Those that have waited longest come first; ones that cannot be had hold nobody up."""
    every = names(2 * PARKED_IN_A_LOOK + 5)
    its = looks(*map(issue, every))
    its.park(*every)
    its.tracker.refused = {*every[:PARKED_IN_A_LOOK]}
    for begin in range(0, len(every), PARKED_IN_A_LOOK):
        now = every[begin : begin + PARKED_IN_A_LOOK]
        asked = await its.look()
        assert asked[: len(now)] == now
        assert len(asked) <= PARKED_IN_A_LOOK
    its.tracker.refused = set()
    while await its.look():
        pass
    assert all(map(its.fingerprint, every))
    again = its.restarted()
    assert await again.look() == every[:PARKED_IN_A_LOOK]
    rest = [key for _ in range(3) for key in await again.look()]
    assert rest == every[PARKED_IN_A_LOOK:]


async def test_a_tracker_that_is_asked_too_often_is_asked_no_more_in_that_look(looks):
    every = names(PARKED_IN_A_LOOK)
    its = looks(*map(issue, every))
    its.park(*every)
    its.tracker.limit = TrackerError(TrackerError.RATE_LIMITED, "too often.", until=9e9)
    assert len(await its.look()) < PARKED_IN_A_LOOK
    assert {*its.schedule.issues} == {*every}


async def test_a_full_record_that_does_not_come_holds_no_look_up(looks):
    its = looks(issue("a"), issue("free"), patience=0.05)
    its.park("a")
    its.tracker.stuck = {"a"}
    assert await its.look() == ["a"]
    assert {*its.schedule.issues} == {"a", "free"}


async def test_what_came_beside_one_that_does_not_come_counts(looks):
    """Else the answer to a parked issue would not be heard for as long as another one hangs."""
    its = looks(issue("a"), issue("b"), patience=0.05)
    its.park("a", "b")
    its.tracker.stuck = {"a"}
    assert await its.look() == ["a", "b"]
    assert (its.fingerprint("a"), its.fingerprint("b") != "") == ("", True)


async def test_one_that_does_not_come_goes_behind_those_that_nobody_asked_for(looks):
    every = names(PARKED_IN_A_LOOK)
    its = looks(*map(issue, every), patience=0.05)
    its.park(*every)
    its.tracker.stuck = {*every[:FETCHES_AT_ONCE]}
    assert await its.look() == every[:FETCHES_AT_ONCE]
    assert (await its.look())[: PARKED_IN_A_LOOK - FETCHES_AT_ONCE] == every[FETCHES_AT_ONCE:]


# -- blockers that the list does not show -----------------------------------------------------------------------


async def test_an_issue_that_is_held_for_blockers_stays_held_until_they_are_done(looks):
    its = looks(issue("a", "b"), issue("b"))
    await its.look()
    assert its.blocked_by("a") == ()
    await its.hold("a")
    for _ in range(3):
        assert await its.look() == ["a"]
        assert its.blocked_by("a") == ("B",)
    its.tracker.change("b", state="done")
    assert await its.look() == ["a"]
    assert its.blocked_by("a") == ()
    assert await its.look() == []


async def test_blockers_in_the_list_count_and_cost_no_call(looks):
    its = looks(issue("a", "b"), issue("b"))
    its.tracker.lists_blockers = True
    await its.look()
    await its.hold("a")
    its.tracker.change("a", blocked_by=(Blocker("b", "B", "todo"),))
    assert await its.look() == []
    assert its.blocked_by("a") == ("B",)
    its.tracker.change("a", blocked_by=())
    assert await its.look() == []
    assert its.blocked_by("a") == ()


async def test_many_that_are_held_are_asked_for_in_turn_and_none_is_let_go_by_not_being_asked_for(looks):
    every = names(2 * BLOCKED_IN_A_LOOK + 5)
    its = looks(issue("b"), *(issue(one, "b") for one in every))
    await its.look()
    await its.hold(*every)
    for its in (its, its.restarted()):  # noqa: B020 - the same again
        asked = [key for _ in range(3) for key in await its.look()]
        assert Counter(asked).keys() == {*every}
        assert len(asked) == 3 * BLOCKED_IN_A_LOOK
        assert {its.blocked_by(one) for one in every} == {("B",)}
    its.tracker.change("b", state="done")
    for _ in range(3):
        await its.look()
    assert {its.blocked_by(one) for one in every} == {()}


async def test_after_a_restart_what_cannot_be_asked_for_stays_held(looks):
    its = looks(issue("a", "b"), issue("b"))
    await its.look()
    await its.hold("a")
    its.tracker.refused = {"a"}
    its = its.restarted()
    for _ in range(2):
        assert await its.look() == ["a"]
        assert its.blocked_by("a") == ("B",)


async def test_nobody_is_asked_about_the_blockers_of_what_would_not_start_without_them(looks):
    """One that is parked, or runs because a person started it."""
    its = looks(issue("a", "c"), issue("b", "c"), issue("c"))
    await its.look()
    await its.hold("a", "b")
    its.schedule.apply(ev.Claimed(at=1.0, issue_id="b", run_id="r", identifier="B", attempt=1, asked_in="todo"))
    its.park("a")
    assert await its.look() == ["a"]  # with its comments, once
    assert await its.look() == []


@pytest.mark.parametrize("kind", [TrackerError.API, TrackerError.PAYLOAD])
async def test_an_issue_that_the_tracker_cannot_read_keeps_no_other_from_being_seen(looks, kind):
    """It left the active ones while something is held of it, and its state is asked for at every look."""
    its = looks(issue("broken"), issue("fine"))
    its.park("broken")
    await its.look()
    its.tracker.change("broken", state="review")
    its.tracker.change("fine", title="Another")
    its.tracker.limits, its.tracker.limit = ("states",), TrackerError(kind, "500.")
    found = await its.source.look(its.schedule)
    assert found.issues["fine"].title == "Another"
    assert found.states == {"broken": "todo"}, "the last that is known of it"
    assert "500." in " ".join(found.problems)
    its.tracker.limit = TrackerError(TrackerError.RATE_LIMITED, "later", until=9e9)
    with pytest.raises(TrackerError):
        await its.source.look(its.schedule)
