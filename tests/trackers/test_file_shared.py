"""One issue file, many writers: nothing that anybody wrote is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from sortie.trackers.file import FileTracker

from .scene import names_in, read_issues, record, tracker_on, write_issues

HERE = Path(__file__).parent
DEADLINE = 30.0
TURNS = 50


@pytest.fixture
def path(tmp_path):
    return tmp_path / "issues.json"


async def first_edit(path: Path) -> None:
    with anyio.fail_after(DEADLINE):
        while json.loads(path.read_bytes())[0]["edits"] == 0:
            await anyio.sleep(0.001)


async def all_there(tracker: FileTracker, comments: set[str], states: dict[str, str]) -> None:
    """Every read makes changes again that the editor dropped, so reading on is all it takes."""
    with anyio.fail_after(DEADLINE):
        while True:
            issue = await tracker.fetch_issue("shared")
            bodies = [comment.body for comment in issue.comments or ()]
            assert len(bodies) == len(set(bodies))
            if set(bodies) == comments and await tracker.fetch_states(states) == states:
                return
            await anyio.sleep(0.001)


async def test_two_hundred_writes_and_an_editor_that_knows_no_lock_lose_nothing(path):
    write_issues(path, record(0, edits=0), record(1, id="shared"), record(2), record(3))
    stop = path.with_name("stop")
    tracker = tracker_on(path, states=[f"State {turn}" for turn in range(TURNS)])
    with subprocess.Popen(
        [sys.executable, HERE / "editor_program.py", path, stop], stdout=subprocess.PIPE, text=True
    ) as editor:
        try:
            await first_edit(path)
            for turn in range(TURNS):
                async with anyio.create_task_group() as group:
                    for number in range(2):
                        group.start_soon(tracker.comment, "shared", f"{turn}.{number}")
                        group.start_soon(tracker.transition, str(number + 2), f"State {turn}")
                await tracker.fetch_candidates()
            comments = {f"{turn}.{number}" for turn in range(TURNS) for number in range(2)}
            await all_there(tracker, comments, {"2": f"State {TURNS - 1}", "3": f"State {TURNS - 1}"})
        finally:
            stop.touch()
        output, _ = editor.communicate(timeout=DEADLINE)
    assert editor.returncode == 0
    assert int(output) > 1
    records = json.loads(path.read_bytes())
    assert records[0]["edits"] == int(output)
    assert len(records[1]["comments"]) == 2 * TURNS
    assert {entry["state"] for entry in records[2:]} == {f"State {TURNS - 1}"}
    assert names_in(path.parent) == {"issues.json", "issues.json.lock", "stop"}


def test_two_trackers_in_two_processes_lose_nothing(path):
    write_issues(path, record(0, id="shared"), record(1, id="one"), record(2, id="two"))
    writers = [
        subprocess.Popen([sys.executable, HERE / "writer_program.py", path, name, "25"]) for name in ("one", "two")
    ]
    for writer in writers:
        assert writer.wait(DEADLINE) == 0
    issues = read_issues(path)
    assert sorted(comment["body"] for comment in issues["shared"]["comments"]) == sorted(
        f"{name} {number}" for name in ("one", "two") for number in range(25)
    )
    assert (issues["one"]["state"], issues["two"]["state"]) == ("State 24", "State 24")


async def test_a_change_overwritten_by_a_program_with_an_old_copy_is_made_again(path):
    tracker = tracker_on(write_issues(path, record(1), record(2)))
    old_copy = path.read_text()
    await tracker.transition("1", "In Progress")
    await tracker.comment("1", "Started.")
    await tracker.transition("1", "In Review")
    path.write_text(old_copy.replace("Task 2", "Task 2, better"))
    issue = await tracker.fetch_issue("1")
    assert issue.state == "In Review"
    assert [comment.body for comment in issue.comments or ()] == ["Started."]
    assert (await tracker.fetch_issue("2")).title == "Task 2, better"
    assert read_issues(path)["1"]["state"] == "In Review"


async def test_a_further_change_brings_back_an_overwritten_one_in_the_right_order(path):
    tracker = tracker_on(write_issues(path, record(1)))
    old_copy = path.read_text()
    await tracker.transition("1", "In Progress")
    path.write_text(old_copy)
    await tracker.comment("1", "Started.")
    assert read_issues(path)["1"]["state"] == "In Progress"
    path.write_text(old_copy)
    await tracker.transition("1", "In Review")
    issue = read_issues(path)["1"]
    assert (issue["state"], [comment["body"] for comment in issue["comments"]]) == ("In Review", ["Started."])


async def test_a_person_who_takes_a_move_back_is_left_alone(path):
    tracker = tracker_on(write_issues(path, record(1)))
    await tracker.transition("1", "In Review")
    path.write_text(path.read_text().replace("In Review", "Todo"))
    assert await tracker.fetch_states(["1"]) == {"1": "Todo"}


async def test_a_move_in_an_old_copy_stands_and_our_comment_comes_back(path):
    tracker = tracker_on(write_issues(path, record(1)))
    old_copy = path.read_text()
    await tracker.transition("1", "In Progress")
    await tracker.comment("1", "Started.")
    path.write_text(old_copy.replace("Todo", "Done"))
    issue = await tracker.fetch_issue("1")
    assert issue.state == "Done"
    assert [comment.body for comment in issue.comments or ()] == ["Started."]


async def test_an_issue_removed_after_our_change_stays_removed(path):
    tracker = tracker_on(write_issues(path, record(1), record(2)))
    await tracker.transition("1", "In Progress")
    write_issues(path, record(2))
    assert await tracker.fetch_states(["1", "2"]) == {"2": "Todo"}
    assert set(read_issues(path)) == {"2"}
