"""Files that are missing, broken, hostile or half written: one sentence each, and no good record suffers."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from sortie.errors import TrackerError

from .scene import names_in, record, tracker_on, write_issues


@pytest.fixture
def path(tmp_path):
    return tmp_path / "issues.json"


async def failure_of(path: Path, kind: str) -> str:
    tracker = tracker_on(path)
    with pytest.raises(TrackerError) as reading:
        await tracker.fetch_candidates()
    with pytest.raises(TrackerError) as writing:
        await tracker.transition("1", "Done")
    assert (reading.value.kind, writing.value.kind) == (kind, kind)
    assert "\n" not in str(reading.value)
    return str(reading.value)


async def test_a_missing_file_says_how_to_make_one(path):
    assert "does not exist. Create it with `[]` in it" in await failure_of(path, TrackerError.TRANSPORT)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1, column 1"),
        ('[\n  {"id": "1"},\n  {"id"', "line 3, column 8"),
        ('[\n  {"id": "1"}\n', "line 3, column 1"),
        ("[] []", "line 1, column 4"),
    ],
)
async def test_invalid_json_is_shown_by_line_and_column(path, text, where):
    path.write_text(text)
    assert where in await failure_of(path, TrackerError.PAYLOAD)
    assert path.read_text() == text


async def test_text_that_is_not_utf8_is_shown_by_line_and_column(path):
    path.write_bytes(b'[\n "\xff\xfe" x]')
    assert "not UTF-8 in line 2, column 3" in await failure_of(path, TrackerError.PAYLOAD)


async def test_endless_nesting_is_refused(path):
    path.write_text("[" * 200_000)
    await failure_of(path, TrackerError.PAYLOAD)


@pytest.mark.parametrize("text", ['{"issues": []}', "null", '"x"', "3"])
async def test_anything_but_an_array_is_refused(path, text):
    path.write_text(text)
    assert "is not a JSON array of issues" in await failure_of(path, TrackerError.PAYLOAD)


async def test_a_fifo_is_refused_without_waiting_for_a_writer(path):
    os.mkfifo(path)
    assert "not a regular file" in await failure_of(path, TrackerError.PAYLOAD)


async def test_a_directory_is_refused(path):
    path.mkdir()
    assert "not a regular file" in await failure_of(path, TrackerError.PAYLOAD)


async def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # socket names must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("issues.json")
        await failure_of(tmp_path / "issues.json", TrackerError.TRANSPORT)


async def test_a_file_without_end_is_refused(path):
    path.touch()
    os.truncate(path, 65 * 1024 * 1024)
    assert "larger than 64 MiB" in await failure_of(path, TrackerError.PAYLOAD)


async def test_links_in_a_circle_are_refused(path):
    path.symlink_to(path)
    await failure_of(path, TrackerError.TRANSPORT)


@pytest.mark.parametrize(
    "broken",
    [
        {"id": "9", "identifier": "T-9", "title": "x"},
        {"id": "9", "identifier": "T-9", "state": "Todo"},
        {"id": "9", "title": "x", "state": "Todo"},
        {"identifier": "T-9", "title": "x", "state": "Todo"},
        record(9, id=9),
        record(9, title=["x"]),
        record(9, state=" "),
        record(9, priority="high"),
        record(9, priority=1.5),
        record(9, priority=True),
        record(9, labels="backend"),
        record(9, comments={"id": "c"}),
        record(9, blocked_by=[3]),
        record(9, parent="T-1"),
        "T-9",
        None,
    ],
    ids=repr,
)
async def test_a_record_that_cannot_be_used_is_named_and_hides_no_other(path, broken):
    tracker = tracker_on(write_issues(path, record(1), broken, record(2)))
    found = await tracker.fetch_candidates()
    assert [issue.id for issue in found.issues] == ["1", "2"]
    assert len(found.problems) == 1
    assert "record 2" in found.problems[0]
    assert "cannot be used" in found.problems[0]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (record(9, id=9), 'record 1 (T-9) cannot be used: `id` must be text in quotes, such as "7", not 9.'),
        ({"id": 9}, "record 1 (id 9) cannot be used: `id` must be text in quotes"),
        ({"id": 9}, "; `identifier` is missing; `title` is missing; `state` is missing."),
        (record(9, title=None), "`title` must be text in quotes, not null."),
        (record(9, title=" ", state=""), "`title` must not be empty; `state` must not be empty."),
        (record(9, priority="high"), '`priority` must be a whole number, such as 2, not "high".'),
        (record(9, labels=["ui", 3]), '`labels` must be a list of texts, such as ["backend"], not 3 as entry 2.'),
        (record(9, comments=[{"body": 1}]), '`comments` must be a list of objects with texts, such as [{"author"'),
        (record(9, blocked_by=[7]), '`blocked_by` must be a list of issues, such as ["PROJ-1"], not 7 as entry 1.'),
        (record(9, parent="T-1"), '`parent` must be an object of texts, such as {"identifier": "PROJ-1"}, not'),
        (record(9, agent={"max_turns": 0}), '`agent` must be an object, such as {"kind": "codex", "max_turns": 5'),
        (record(9, description=["x" * 99]), '`description` must be text in quotes, not ["xxx'),
        ("T-9", 'record 1 cannot be used: it must be an object between { and }, not "T-9".'),
    ],
)
async def test_everything_that_is_wrong_with_a_record_is_said_in_plain_words(path, broken, says):
    (problem,) = (await tracker_on(write_issues(path, broken)).fetch_candidates()).problems
    assert says in problem
    assert problem.startswith(f"{path}: ")
    assert "$" not in problem and "Expected" not in problem and len(problem) < 500


async def test_an_issue_whose_record_broke_still_exists(path):
    tracker = tracker_on(write_issues(path, record(1, priority="high")))
    assert await tracker.fetch_states(["1"]) == {"1": "Todo"}
    with pytest.raises(TrackerError, match="priority") as failure:
        await tracker.fetch_issue("1")
    assert failure.value.kind == TrackerError.PAYLOAD


@pytest.mark.parametrize(
    ("twins", "value"),
    [
        ([record(1), record(1, identifier="T-9")], '2 records have the id "1"'),
        ([record(1), record(9, identifier="T-1")], '2 records have the identifier "T-1"'),
    ],
)
async def test_of_duplicates_none_is_used_and_the_shared_value_is_named(path, twins, value):
    tracker = tracker_on(write_issues(path, *twins, record(5)))
    found = await tracker.fetch_candidates()
    assert [issue.id for issue in found.issues] == ["5"]
    assert len(found.problems) == 1
    assert value in found.problems[0]
    with pytest.raises(TrackerError, match="records have the"):
        await tracker.fetch_issue("1")
    assert await tracker.fetch_states(["1"]) == {"1": "Todo"}


async def test_a_duplicate_id_cannot_be_written(path):
    before = write_issues(path, record(1), record(1, identifier="T-9")).read_bytes()
    with pytest.raises(TrackerError, match='2 records with the id "1"'):
        await tracker_on(path).transition("1", "Done")
    assert path.read_bytes() == before


async def test_comments_that_are_no_list_are_not_overwritten(path):
    before = write_issues(path, record(1, comments="none yet")).read_bytes()
    with pytest.raises(TrackerError, match="not a list of objects"):
        await tracker_on(path).comment("1", "hello")
    assert path.read_bytes() == before


async def test_after_a_broken_version_the_next_good_one_is_read(path):
    tracker = tracker_on(write_issues(path, record(1)))
    await tracker.fetch_candidates()
    path.write_text("[{")
    with pytest.raises(TrackerError):
        await tracker.fetch_candidates()
    write_issues(path, record(1), record(2))
    assert len((await tracker.fetch_candidates()).issues) == 2


async def test_numbers_no_computer_can_hold_stay_as_they_are(path):
    path.write_text(json.dumps([record(1)])[:-2] + ', "huge": 1e999, "exact": 0.12345678901234567890123}]')
    tracker = tracker_on(path)
    await tracker.transition("1", "Done")
    assert '"huge": 1e999, "exact": 0.12345678901234567890123' in path.read_text()
    assert names_in(path.parent) == {"issues.json", "issues.json.lock"}
