"""What the file tracker makes of an issue file."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from sortie.core.model import Blocker, Comment, Issue, IssueRef
from sortie.errors import TrackerError
from sortie.trackers.file import FileTracker
from sortie.trackers.tracker import Tracker, TrackerSettings

from .scene import FULL_RECORD, read_issues, record, settings_for, tracker_on, write_issues


@pytest.fixture
def path(tmp_path):
    return tmp_path / "issues.json"


def test_it_is_a_tracker(path):
    tracker: Tracker = tracker_on(path)
    assert tracker.watched_files() == (path,)


async def test_every_field_of_a_record_is_read(path):
    tracker = tracker_on(write_issues(path, FULL_RECORD))
    assert await tracker.fetch_issue("abc123") == Issue(
        id="abc123",
        identifier="PROJ-42",
        title="Add retry logic",
        description="The client gives up at once.",
        state="In Progress",
        priority=2,
        labels=("backend", "reliability"),
        assignee="alice",
        issue_type="Bug",
        url="https://tracker.example.com/browse/PROJ-42",
        branch_name="PROJ-42-retry-logic",
        parent=IssueRef("parent-1", "PROJ-40"),
        comments=(Comment("c1", "bob", "Confirmed in prod.", "2026-03-25T10:00:00Z"),),
        blocked_by=(Blocker("x", "PROJ-7", "Done"),),
        created_at="2026-03-20T09:00:00Z",
        updated_at="2026-03-25T14:30:00Z",
    )


async def test_null_and_missing_fields_are_the_same(path):
    optional = {key: None for key in FULL_RECORD if key not in {"id", "identifier", "title", "state"}}
    tracker = tracker_on(write_issues(path, record(1), record(2, **optional)))
    bare, nulls = await tracker.fetch_issue("1"), await tracker.fetch_issue("2")
    assert msgspec.structs.replace(nulls, id="1", identifier="T-1", title="Task 1") == bare
    assert (bare.priority, bare.parent, bare.comments, bare.blocked_by, bare.labels) == (None, None, (), (), ())


async def test_candidates_are_the_issues_in_active_states_whatever_their_case(path):
    states = ["Todo", "in progress", "DONE", "Backlog"]
    write_issues(path, *(record(n, state=state) for n, state in enumerate(states)))
    found = await tracker_on(path).fetch_candidates()
    assert [issue.state for issue in found.issues] == ["Todo", "in progress"]
    assert found.problems == ()


async def test_all_issues_are_counted_by_their_state(path):
    states = ["To Do", "To Do", "Done", "Todo"]
    write_issues(path, *(record(n, state=state) for n, state in enumerate(states)), record(9, title=3))
    assert (await tracker_on(path).fetch_candidates()).states == {"To Do": 2, "Done": 1, "Todo": 1}


async def test_without_active_states_everything_that_is_not_terminal_is_a_candidate(path):
    write_issues(path, record(1, state="Anything"), record(2, state="Done"))
    settings = TrackerSettings(kind="file", active_states=(), terminal_states=("done",), base=path.parent)
    found = await FileTracker.from_settings(settings).fetch_candidates()
    assert [issue.id for issue in found.issues] == ["1"]


async def test_the_blockers_own_record_tells_its_state(path):
    write_issues(
        path,
        record(1, state="Done"),
        record(2, blocked_by=["1", "T-1", "elsewhere"]),
        record(3, blocked_by=[{"id": "1", "state": "Todo"}, {"identifier": "T-2"}, {"id": "x", "state": "Done"}]),
    )
    tracker = tracker_on(path)
    assert (await tracker.fetch_issue("2")).blocked_by == (
        Blocker("1", "1", "Done"),
        Blocker("T-1", "T-1", "Done"),
        Blocker("elsewhere", "elsewhere", ""),
    )
    assert [blocker.state for blocker in (await tracker.fetch_issue("3")).blocked_by] == ["Done", "Todo", "Done"]


async def test_an_issue_that_does_not_exist_is_not_found(path):
    with pytest.raises(TrackerError, match='no issue with the id "9"') as failure:
        await tracker_on(write_issues(path, record(1))).fetch_issue("9")
    assert failure.value.kind == TrackerError.NOT_FOUND


async def test_an_unchanged_file_gives_the_same_object_again(path):
    tracker = tracker_on(write_issues(path, record(1)))
    await tracker.fetch_candidates()
    unchanged = await tracker.fetch_candidates()
    assert await tracker.fetch_candidates() is unchanged
    os.utime(path, ns=(10**18, 10**18))
    assert await tracker.fetch_candidates() is unchanged
    assert await tracker.fetch_candidates() is unchanged


COUNT_OPENS = """
import sys
from pathlib import Path
import anyio
from sortie.trackers.file import FileTracker

path, steps, opened = sys.argv[1], sys.argv[2], []

async def drain(tracker, number):
    for issue_id in range(number, 40, 4):
        await tracker.fetch_issue(str(issue_id))
        await tracker.transition(str(issue_id), "In Progress")
        await tracker.fetch_candidates()
        await tracker.transition(str(issue_id), "Done")

async def main():
    tracker = FileTracker(Path(path), ("Todo", "In Progress"), ("Done",))
    await tracker.fetch_candidates()
    sys.addaudithook(lambda event, args: opened.append(args) if event == "open" and args[0] == path else None)
    for step in steps:
        if step == "l":
            await tracker.fetch_candidates()
        elif step == "t":
            Path(path).touch()
        else:
            async with anyio.create_task_group() as group:
                for number in range(4):
                    group.start_soon(drain, tracker, number)
            assert await tracker.fetch_candidates() and not (await tracker.fetch_candidates()).issues

anyio.run(main)
print(len(opened))
"""


@pytest.mark.parametrize(("steps", "opened"), [("lllll", 0), ("lltl", 1), ("dl", 0)])
def test_only_what_others_changed_is_read_again(path, steps, opened):
    """l: a look, t: another touches the file, d: many issues are worked off at once."""
    os.utime(write_issues(path, *(record(n) for n in range(40))), ns=(10**18, 10**18))
    counted = subprocess.run(
        [sys.executable, "-c", COUNT_OPENS, str(path), steps],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert int(counted.stdout) == opened


async def test_a_changed_file_is_read_again(path):
    tracker = tracker_on(write_issues(path, record(1)))
    assert (await tracker.fetch_issue("1")).title == "Task 1"
    write_issues(path, record(1, title="Task X"))
    assert (await tracker.fetch_issue("1")).title == "Task X"
    write_issues(path.with_name("new"), record(1, title="Task Y")).rename(path)
    assert (await tracker.fetch_issue("1")).title == "Task Y"


async def test_a_byte_order_mark_is_no_obstacle(path):
    path.write_bytes(b"\xef\xbb\xbf" + write_issues(path, record(1)).read_bytes())
    tracker = tracker_on(path)
    await tracker.transition("1", "Done")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf[")
    assert (await tracker.fetch_issue("1")).state == "Done"


async def test_ten_thousand_issues_are_read_and_one_of_them_changed(path):
    tracker = tracker_on(write_issues(path, *(record(n, blocked_by=["0"]) for n in range(10_000))))
    found = await tracker.fetch_candidates()
    assert len(found.issues) == 10_000
    await tracker.transition("9999", "Done")
    assert len((await tracker.fetch_candidates()).issues) == 9_999
    assert read_issues(path)["9999"]["state"] == "Done"


def test_the_path_is_relative_to_the_workflow_and_has_a_default(tmp_path):
    settings = TrackerSettings(kind="file", active_states=(), base=tmp_path)
    assert FileTracker.from_settings(settings).watched_files() == (tmp_path / "issues.json",)


def test_check_accepts_what_is_right(path):
    assert FileTracker.check(settings_for(path)) == []
    assert FileTracker.check(TrackerSettings(kind="file", active_states=())) == []


@pytest.mark.parametrize("wrong", [3, None, "", " ", ["issues.json"]])
def test_check_names_a_path_that_is_no_name(path, wrong):
    assert [key for key, _ in FileTracker.check(settings_for(path, {"path": wrong}))] == ["file.path"]


@pytest.mark.parametrize("wrong", ["Backlog", None, [3], [" "], {"a": 1}])
def test_check_names_states_that_are_no_list_of_names(path, wrong):
    assert [key for key, _ in FileTracker.check(settings_for(path, {"states": wrong}))] == ["file.states"]


def test_check_names_every_unknown_option(path):
    problems = FileTracker.check(settings_for(path, {"pth": "x", "mode": 1}))
    assert [key for key, _ in problems] == ["file.pth", "file.mode"]
    assert all("`path`" in sentence for _, sentence in problems)
