"""What every tracker keeps, as tests: inherit `TrackerContract`, say how yours is made, and let pytest find it.

    class TestMyTracker(TrackerContract):
        async def store(self, directory, issues): ...
        def tracker(self, directory): ...

Each test has a directory of its own, in which the tracker may keep its things; one that keeps them elsewhere knows
by it which test it is in. A server gives issues ids of its own: then `store` answers with them, and the tests go on
with those. The tests are async and run by anyio's pytest plugin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import anyio
import pytest
from msgspec.structs import replace

from ..core.model import Blocker, Comment, Issue
from ..core.observe import mark, mark_of
from ..errors import TrackerError
from ..trackers.tracker import Candidates, GuardedTracker, Tracker, fetch_each

ACTIVE_STATES = ("Todo", "In Progress")
TERMINAL_STATES = ("Done",)
HANDOFF_STATE = "In Review"

FIRST = Issue(id="1", identifier="T-1", title="The first", state="Todo", description="Do it well.")
SECOND = Issue(id="2", identifier="T-2", title="The second", state="In Progress")
FINISHED = Issue(id="3", identifier="T-3", title="The third", state="Done")


class TrackerContract(ABC):
    """The tracker knows the states above; issues are told by the ids they were stored under."""

    pytestmark = pytest.mark.anyio

    keeps_names: ClassVar[bool] = True
    """Whether issues have the identifiers they were stored under, and not those that a server gives them."""

    @abstractmethod
    async def store(self, directory: Path, issues: Sequence[Issue]) -> Mapping[str, str] | None:
        """Let these be all issues that there are, as somebody does who knows nothing of the tracker object. The
        answer is under which id each is known, where that is not the one it was given here."""

    @abstractmethod
    def tracker(self, directory: Path) -> Tracker:
        """A tracker on what was stored."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_issues_in_active_states_are_candidates(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST, SECOND, FINISHED) as tracker:
            found = await tracker.fetch_candidates()
            assert {issue.id: issue.state for issue in found.issues} == {"1": "Todo", "2": "In Progress"}
            assert found.problems == ()
            if found.states:
                assert found.states == {"Todo": 1, "In Progress": 1, "Done": 1}

    async def test_an_issue_is_told_with_its_comments(self, tmp_path: Path) -> None:
        said = replace(FIRST, comments=(Comment("c1", "ann", "Is it urgent?"), Comment("c2", "bob", "Yes.")))
        async with self._on(tmp_path, said, FINISHED) as tracker:
            found = await tracker.fetch_issue("1")
            assert (found.title, found.state) == ("The first", "Todo")
            assert found.identifier == "T-1" if self.keeps_names else found.identifier
            assert found.description == "Do it well."
            assert _bodies(found) == ["Is it urgent?", "Yes."]
            assert (await tracker.fetch_issue("3")).comments == ()

    async def test_labels_are_told_in_lower_case(self, tmp_path: Path) -> None:
        """Whoever has no labels, or one only, may leave out what does not fit."""
        async with self._on(tmp_path, replace(FIRST, labels=("Backend", "CI"))) as tracker:
            (listed,) = (await tracker.fetch_candidates()).issues
            assert {*listed.labels} <= {"backend", "ci"}
            assert (await tracker.fetch_issue("1")).labels == listed.labels

    async def test_states_are_told_of_those_that_exist(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST, FINISHED) as tracker:
            assert await tracker.fetch_states(["3", "nobody", "1"]) == {"1": "Todo", "3": "Done"}
            assert await tracker.fetch_states([]) == {}

    async def test_an_issue_that_does_not_exist_is_not_found(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST) as tracker:
            for call in (
                tracker.fetch_issue("nobody"),
                tracker.transition("nobody", "Done"),
                tracker.comment("nobody", "hello"),
            ):
                with pytest.raises(TrackerError) as failure:
                    await call
                assert failure.value.kind == TrackerError.NOT_FOUND

    async def test_a_move_shows_in_every_answer(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST, SECOND) as tracker:
            await tracker.fetch_candidates()
            for state in ("In Progress", HANDOFF_STATE, "Todo"):
                await tracker.transition("1", state)
                assert (await tracker.fetch_issue("1")).state == state
                assert await tracker.fetch_states(["1", "2"]) == {"1": state, "2": "In Progress"}
                shown = {issue.id: issue.state for issue in (await tracker.fetch_candidates()).issues}
                assert shown.get("1") == (state if state in ACTIVE_STATES else None)

    async def test_a_move_to_the_present_state_does_nothing(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST) as tracker:
            before = await tracker.fetch_issue("1")
            await tracker.transition("1", "Todo")
            assert await tracker.fetch_issue("1") == before

    async def test_a_state_that_nobody_knows_is_refused(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST) as tracker:
            before = await tracker.fetch_issue("1")
            with pytest.raises(TrackerError) as failure:
                await tracker.transition("1", "Never heard of")
            assert failure.value.kind == TrackerError.PAYLOAD
            assert await tracker.fetch_issue("1") == before

    async def test_comments_are_kept_in_order_beside_those_of_others(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, replace(FIRST, comments=(Comment("c1", "ann", "Is it urgent?"),))) as tracker:
            await tracker.comment("1", "Started.\nMore: ü € 🙂")
            await tracker.transition("1", "In Progress")
            await tracker.comment("1", "Ended.")
            found = await tracker.fetch_issue("1")
            assert _bodies(found) == ["Is it urgent?", "Started.\nMore: ü € 🙂", "Ended."]
            assert len({comment.id for comment in found.comments or ()}) == 3

    async def test_a_comment_of_ours_is_known_by_its_last_line(self, tmp_path: Path) -> None:
        """In whatever form a server keeps it: else it is written again after a crash, and frees a parked issue."""
        said = mark("It ended.\n\n- one\n- two", "18f-0a.completion")
        async with self._on(tmp_path, FIRST) as tracker:
            await tracker.comment("1", said)
            await tracker.comment("1", f"{said}\n\nA person who answers below.")
            marks = [mark_of(body) for body in _bodies(await tracker.fetch_issue("1"))]
            assert marks == ["18f-0a.completion", None]

    async def test_many_writes_at_once_are_all_there(self, tmp_path: Path) -> None:
        issues = [replace(FIRST, id=str(n), identifier=f"T-{n}") for n in range(20)]
        async with self._on(tmp_path, *issues) as tracker:
            async with anyio.create_task_group() as tasks:
                for issue in issues:
                    tasks.start_soon(tracker.transition, issue.id, HANDOFF_STATE)
                    tasks.start_soon(tracker.comment, "0", f"from {issue.id}")
            states = await tracker.fetch_states([issue.id for issue in issues])
            assert states == {issue.id: HANDOFF_STATE for issue in issues}
            assert sorted(_bodies(await tracker.fetch_issue("0"))) == sorted(f"from {issue.id}" for issue in issues)

    async def test_one_call_that_fails_does_not_take_others_with_it(self, tmp_path: Path) -> None:
        failures: list[tuple[str, str]] = []
        async with self._on(tmp_path, FIRST, SECOND) as tracker:

            async def move(issue_id: str) -> None:
                try:
                    await tracker.transition(issue_id, "Done")
                except TrackerError as error:
                    failures.append((issue_id, error.kind))

            async with anyio.create_task_group() as tasks:
                for issue_id in ("1", "nobody", "2"):
                    tasks.start_soon(move, issue_id)
            assert failures == [("nobody", TrackerError.NOT_FOUND)]
            assert await tracker.fetch_states(["1", "2"]) == {"1": "Done", "2": "Done"}
            found, failed = await fetch_each(tracker, ["1", "nobody", "2"])
            assert ({*found}, failed["nobody"].kind) == ({"1", "2"}, TrackerError.NOT_FOUND)

    async def test_edits_of_others_show(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST, SECOND) as tracker:
            await tracker.fetch_candidates()
            await tracker.transition("1", "In Progress")
            await self._store_anew(tmp_path, tracker, replace(SECOND, title="Another"), FINISHED)
            assert [issue.title for issue in (await tracker.fetch_candidates()).issues] == ["Another"]
            assert await tracker.fetch_states(["1", "2", "3"]) == {"2": "In Progress", "3": "Done"}

    async def test_whoever_follows_what_changed_knows_all(self, tmp_path: Path) -> None:
        """Each step changes something; a tracker that does not know what changed says so at every answer."""
        blocked = replace(SECOND, blocked_by=(Blocker("1", "T-1", "Todo"),))
        async with self._on(tmp_path, FIRST, blocked, FINISHED) as tracker:
            following = Follower(tracker)
            assert (await following.look()).changed is None
            assert not (await following.look()).changed
            await tracker.transition("1", "In Progress")
            await following.look()
            await tracker.comment("1", "hello")
            await following.look()
            await tracker.transition("1", HANDOFF_STATE)
            await tracker.transition("3", "Todo")
            await following.look()
            await self._store_anew(tmp_path, tracker, replace(FIRST, title="Another"), FINISHED)
            await following.look()
            fourth = replace(SECOND, id="4", identifier="T-4")
            await self._store_anew(tmp_path, tracker, replace(FIRST, state="Done"), fourth)
            await following.look()
            assert not (await following.look()).changed

    async def test_who_shares_a_tracker_misses_nothing(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST, SECOND) as tracker:
            guarded = GuardedTracker(tracker)
            mine = await guarded.fetch_candidates()
            await tracker.transition("1", "In Progress")
            theirs = await guarded.fetch_candidates()
            later = await guarded.fetch_candidates()
            assert later.changed_since(mine) is None
            assert not later.changed_since(theirs)
            assert theirs.changed_since(mine) in (None, {"1"})

    async def test_files_to_watch_are_paths(self, tmp_path: Path) -> None:
        async with self._on(tmp_path, FIRST) as tracker:
            assert all(isinstance(path, Path) for path in tracker.watched_files())

    @asynccontextmanager
    async def _on(self, directory: Path, *issues: Issue) -> AsyncIterator[_Renamed]:
        stored = await self.store(directory, issues)
        tracker = _Renamed(self.tracker(directory), stored or {})
        try:
            yield tracker
        finally:
            await tracker.aclose()

    async def _store_anew(self, directory: Path, tracker: _Renamed, *issues: Issue) -> None:
        tracker.ids = {**tracker.ids, **(await self.store(directory, issues) or {})}


class _Renamed:
    """A tracker whose issues are told by the ids they were stored under, `ids` has those that it gave them."""

    def __init__(self, tracker: Tracker, ids: Mapping[str, str]) -> None:
        self._tracker = tracker
        self.ids = ids

    async def fetch_candidates(self) -> Candidates:
        found = await self._tracker.fetch_candidates()
        ours = self._ours()
        changed = None if found.changed is None else frozenset(ours.get(each, each) for each in found.changed)
        return replace(found, issues=tuple(map(self._named, found.issues)), changed=changed)

    async def fetch_issue(self, issue_id: str) -> Issue:
        return self._named(await self._tracker.fetch_issue(self.ids.get(issue_id, issue_id)))

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        ours = self._ours()
        found = await self._tracker.fetch_states([self.ids.get(issue_id, issue_id) for issue_id in issue_ids])
        return {ours.get(issue_id, issue_id): state for issue_id, state in found.items()}

    async def transition(self, issue_id: str, state: str) -> None:
        await self._tracker.transition(self.ids.get(issue_id, issue_id), state)

    async def comment(self, issue_id: str, body: str) -> None:
        await self._tracker.comment(self.ids.get(issue_id, issue_id), body)

    def watched_files(self) -> tuple[Path, ...]:
        return self._tracker.watched_files()

    async def aclose(self) -> None:
        await self._tracker.aclose()

    def _named(self, issue: Issue) -> Issue:
        return replace(issue, id=self._ours().get(issue.id, issue.id))

    def _ours(self) -> dict[str, str]:
        return {theirs: ours for ours, theirs in self.ids.items()}


class Follower:
    """Compares only what is said to have changed, and fails where that is not enough."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._known: dict[str, Issue] = {}

    async def look(self) -> Candidates:
        found = await self._tracker.fetch_candidates()
        shown = {issue.id: issue for issue in found.issues}
        changed = {*self._known, *shown} if found.changed is None else found.changed
        for issue_id in changed:
            self._known.pop(issue_id, None)
            if issue_id in shown:
                self._known[issue_id] = shown[issue_id]
        assert self._known == shown
        return found


def _bodies(issue: Issue) -> list[str]:
    return [comment.body for comment in issue.comments or ()]
