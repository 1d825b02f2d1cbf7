"""Moves and comments written back into the file: atomic, complete, and touching nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
from typing import cast

import anyio
import pytest
from msgspec.structs import replace

from sortie.errors import TrackerError
from sortie.trackers.file import FileTracker
from sortie.trackers.file_edits import Transition
from sortie.trackers.issue_file import IssueFile

from .scene import FULL_RECORD, names_in, read_issues, record, settings_for, tracker_on, write_issues

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@pytest.fixture
def path(tmp_path):
    return write_issues(tmp_path / "issues.json", FULL_RECORD, record(1), record(2))


async def test_a_transition_sets_state_and_time_and_nothing_else(path):
    before = read_issues(path)
    await tracker_on(path).transition("1", "In Review")
    after = read_issues(path)
    assert after["1"].pop("state") == "In Review"
    assert STAMP.fullmatch(after["1"].pop("updated_at"))
    assert before["1"].pop("state") == "Todo"
    assert after == before


async def test_a_transition_to_the_present_state_writes_nothing(path):
    before = path.stat()
    await tracker_on(path).transition("1", "Todo")
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("In Review", "In Review"),
        ("in review", "In Review"),
        ("Working", "Working"),
        (" DONE ", "Done"),
        ("backlog", "Backlog"),
        ("on hold", "On Hold"),
    ],
)
async def test_a_state_of_the_workflow_or_of_the_file_is_written_as_it_is_spelled_there(path, asked, written):
    """EXT-07: states of the workflow, present in the file, or in `file.states`; case is no matter."""
    write_issues(path, record(1), record(2, state="On Hold"))
    settings = replace(settings_for(path, {"states": ["Backlog"]}), in_progress_state="Working")
    await FileTracker.from_settings(settings).transition("1", asked)
    assert read_issues(path)["1"]["state"] == written


@pytest.mark.parametrize(("state", "told"), [("Never heard of", "knows no state"), (" ", "empty state")])
async def test_a_state_that_nobody_knows_is_refused_and_nothing_is_written(path, state, told):
    """EXT-07: an invalid state is `tracker_payload_error`, and the refusal names the states that there are."""
    before = path.read_bytes()
    with pytest.raises(TrackerError, match=told) as failure:
        await tracker_on(path).transition("1", state)
    assert failure.value.kind == TrackerError.PAYLOAD
    assert path.read_bytes() == before
    if state.strip():
        assert "In Progress, Todo, Done, In Review" in str(failure.value)


async def test_a_comment_is_appended_as_the_orchestrator(path):
    tracker = tracker_on(path)
    await tracker.comment("abc123", "Started.\nMore: ü €")
    await tracker.comment("abc123", "Ended.")
    first, second, third = read_issues(path)["abc123"]["comments"]
    assert first == FULL_RECORD["comments"][0]
    assert (second["author"], second["body"], third["body"]) == ("sortie", "Started.\nMore: ü €", "Ended.")
    assert STAMP.fullmatch(second["created_at"])
    assert len({first["id"], second["id"], third["id"]}) == 3
    assert [c.body for c in (await tracker.fetch_issue("abc123")).comments or ()][1:] == [
        "Started.\nMore: ü €",
        "Ended.",
    ]


@pytest.mark.parametrize("comments", [[], None, "absent"])
async def test_the_first_comment_needs_no_list(path, comments):
    first = record(1) if comments == "absent" else record(1, comments=comments)
    write_issues(path, first)
    await tracker_on(path).comment("1", "hello")
    assert [comment["body"] for comment in read_issues(path)["1"]["comments"]] == ["hello"]


async def test_half_characters_of_an_agents_output_do_not_break_the_file(path):
    tracker = tracker_on(path)
    await tracker.comment("1", "bad \udc80 byte")
    assert [c.body for c in (await tracker.fetch_issue("1")).comments or ()] == ["bad ? byte"]


async def test_calls_that_wait_for_each_other_are_written_together(path):
    """Two hundred calls at once take a handful of writes: each write is a new file, so its inode tells."""
    tracker = tracker_on(path)
    inodes = set()

    async def say(number):
        await tracker.comment("1", f"note {number}")
        inodes.add((path.stat().st_ino, path.stat().st_mtime_ns))

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(say, number)
    assert len(read_issues(path)["1"]["comments"]) == 200
    assert len(inodes) <= 3


async def test_a_cancelled_caller_does_not_stop_the_write_for_the_others(path):
    tracker = tracker_on(path)
    async with anyio.create_task_group() as others, anyio.create_task_group() as first:
        first.start_soon(tracker.comment, "2", "cancelled")
        others.start_soon(tracker.comment, "1", "stays")
        await anyio.wait_all_tasks_blocked()
        first.cancel_scope.cancel()
    assert [comment["body"] for comment in read_issues(path)["1"]["comments"]] == ["stays"]
    await tracker.comment("1", "later")
    assert len(read_issues(path)["1"]["comments"]) == 2


async def test_a_defect_in_one_call_is_no_success_of_the_others(path):
    file = IssueFile(path, bool)
    change = Transition("1", "now", "Done")
    defect = cast("Transition", object())
    failures = []

    async def write(change):
        try:
            await file.write(change)
        except AttributeError:
            failures.append(change)

    async with anyio.create_task_group() as group:
        group.start_soon(write, defect)
        group.start_soon(write, change)
    assert defect in failures
    assert (read_issues(path)["1"]["state"] == "Done") == (change not in failures)


async def test_other_records_keep_every_byte(path):
    text = '[ {"id":"1","identifier":"A","title":"t","state":"Todo"} ,\n\n\t{"b":1.50, "id":"2" }\n]\n\n'
    path.write_text(text)
    await tracker_on(path).transition("1", "Done")
    changed = path.read_text()
    assert changed.startswith('[ {"id": "1", "identifier": "A", "title": "t", "state": "Done", "updated_at": "')
    assert changed.endswith('} ,\n\n\t{"b":1.50, "id":"2" }\n]\n\n')


@pytest.mark.parametrize("indent", [2, 4, "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_what_is_added_has_the_layout_of_the_record(path, indent, newline):
    def in_layout(records: object) -> bytes:
        text: str = json.dumps(records, indent=indent)
        return (text + "\n").replace("\n", newline).encode()

    path.write_bytes(in_layout([FULL_RECORD, record(2)]))
    tracker = tracker_on(path)
    await tracker.comment("abc123", "hello")
    await tracker.comment("2", "first")
    await tracker.transition("2", "Done")
    assert path.read_bytes() == in_layout(json.loads(path.read_bytes()))


async def test_mode_and_owner_stay(path):
    path.chmod(0o640)
    if os.getuid() == 0:
        os.chown(path, 1234, 2345)
    before = path.stat()
    await tracker_on(path).transition("1", "Done")
    after = path.stat()
    assert after.st_ino != before.st_ino
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


async def test_a_link_stays_a_link_and_its_target_is_written(path):
    folder = path.parent / "elsewhere"
    folder.mkdir()
    link = folder / "link.json"
    link.symlink_to("../issues.json")
    await tracker_on(link).transition("1", "Done")
    assert link.is_symlink()
    assert read_issues(path)["1"]["state"] == "Done"
    assert names_in(folder) == {"link.json"}
    assert names_in(path.parent) == {"elsewhere", "issues.json", "issues.json.lock"}


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is forbidden to root")
async def test_a_folder_that_cannot_be_written_is_named(path):
    path.parent.chmod(0o500)
    try:
        with pytest.raises(TrackerError, match="Allow this user to read and write") as failure:
            await tracker_on(path).transition("1", "Done")
    finally:
        path.parent.chmod(0o700)
    assert failure.value.kind == TrackerError.TRANSPORT


async def test_a_lock_file_that_is_a_link_is_not_followed(path):
    victim = path.parent / "victim"
    path.with_name("issues.json.lock").symlink_to(victim)
    with pytest.raises(TrackerError, match=r"issues\.json\.lock cannot be used") as failure:
        await tracker_on(path).transition("1", "Done")
    assert failure.value.kind == TrackerError.TRANSPORT
    assert not victim.exists()


async def test_a_disk_without_room_leaves_everything_as_it_was(path):
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(TrackerError, match=r"cannot be used: File too large") as failure:
            await tracker_on(path).transition("1", "Done")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert failure.value.kind == TrackerError.TRANSPORT
    assert path.read_bytes() == before
    assert names_in(path.parent) == {"issues.json", "issues.json.lock"}


async def test_a_change_dropped_by_a_failed_write_is_not_made_later(path):
    tracker = tracker_on(path)
    saved = path.read_bytes()
    path.unlink()
    with pytest.raises(TrackerError):
        await tracker.transition("1", "Done")
    path.write_bytes(saved)
    assert await tracker.fetch_states(["1"]) == {"1": "Todo"}


HOLD_LOCK = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


async def test_a_write_waits_for_the_lock_of_another_process(path):
    command = [sys.executable, "-c", HOLD_LOCK, f"{path}.lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        async with anyio.create_task_group() as group:
            group.start_soon(tracker_on(path).transition, "1", "Done")
            await anyio.wait_all_tasks_blocked()
            assert read_issues(path)["1"]["state"] == "Todo"
            holder.stdin.close()
    assert read_issues(path)["1"]["state"] == "Done"


async def test_a_lock_that_is_never_given_back_is_an_error(path):
    file = IssueFile(path, bool, lock_deadline=0.02)
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TrackerError, match="Another process has held") as failure:
            await file.write(Transition("1", "now", "Done"))
    assert failure.value.kind == TrackerError.TRANSPORT
