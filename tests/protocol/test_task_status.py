"""`status.json` of a task: what is read, what is refused with its path, what is flagged, and what we write."""

import json
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol.safefiles import open_directory
from sortie.protocol.task_status import (
    SIZE_LIMIT,
    TEXT_LIMIT,
    Progress,
    Reading,
    TaskError,
    TaskStatus,
    document_of,
    parse_task_status,
    read_task_status,
    write_on_behalf,
    write_pending,
)

EXAMPLE = """
{
  "state": "failed",
  "started": "2024-01-15T10:30:00Z",
  "completed": "2024-01-15T11:45:00Z",
  "error": {
    "type": "ValidationError",
    "message": "Input file format invalid",
    "details": "Expected CSV, got JSON",
    "recoverable": true
  },
  "progress": {"current_step": "analyzing_data", "steps_completed": 3, "total_steps": 5},
  "metrics": {"files_processed": 12, "outputs_generated": 4}
}
"""
STARTED, COMPLETED = 1705314600.0, 1705319100.0
NOBODY = 65534


@pytest.fixture
def folder(tmp_path):
    with open_directory(tmp_path) as descriptor:
        yield descriptor


def parse(**fields: object) -> Reading:
    return parse_task_status(json.dumps(fields).encode())


def findings(**fields: object) -> tuple[str, ...]:
    status = parse(state="running", **fields).status
    assert status is not None
    return status.findings


def test_the_example_of_the_document_is_understood_whole():
    """BOX-02"""
    assert parse_task_status(EXAMPLE.encode()).status == TaskStatus(
        state="failed",
        started=STARTED,
        completed=COMPLETED,
        error=TaskError("ValidationError", "Input file format invalid", "Expected CSV, got JSON", True),
        progress=Progress("analyzing_data", 3, 5),
        metrics={"files_processed": 12, "outputs_generated": 4},
    )


@pytest.mark.parametrize("state", ["pending", "running", "completed", "failed"])
def test_a_state_alone_is_enough(state):
    assert parse(state=state) == Reading(status=TaskStatus(state=state))


def test_keys_that_are_null_are_not_given():
    keys = ("started", "completed", "error", "progress", "metrics", "attempt", "seq", "heartbeat", "written_by")
    assert parse(state="pending", **dict.fromkeys(keys)) == Reading(status=TaskStatus(state="pending"))


def test_unknown_keys_are_kept():
    """TBX-02"""
    status = parse(state="running", pid=7, notes=["a"], attempt=2, seq=9, heartbeat="2024-01-15T10:30:00Z").status
    assert status is not None
    assert status.more == {"pid": 7, "notes": ["a"]}
    assert (status.attempt, status.seq, status.heartbeat) == (2, 9, STARTED)


def test_a_mark_of_the_byte_order_and_windows_lines_are_accepted():
    """TBX-19"""
    raw = b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode()
    assert parse_task_status(raw) == parse_task_status(EXAMPLE.encode())


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"state": None}, "state"),
        ({"state": 1}, "state"),
        ({"state": ["completed"]}, "state"),
        ({"state": "done"}, "state"),
        ({"state": "blocked"}, "state"),
        ({"started": 1705314600}, "started"),
        ({"completed": []}, "completed"),
        ({"heartbeat": True}, "heartbeat"),
        ({"error": "no rows"}, "error"),
        ({"error": {"type": 1}}, "error.type"),
        ({"error": {"message": ["x"]}}, "error.message"),
        ({"error": {"recoverable": "no"}}, "error.recoverable"),
        ({"error": {"recoverable": 0}}, "error.recoverable"),
        ({"progress": 3}, "progress"),
        ({"progress": {"current_step": 3}}, "progress.current_step"),
        ({"progress": {"steps_completed": "3"}}, "progress.steps_completed"),
        ({"progress": {"total_steps": True}}, "progress.total_steps"),
        ({"metrics": []}, "metrics"),
        ({"attempt": "2"}, "attempt"),
        ({"seq": {}}, "seq"),
        ({"written_by": 1}, "written_by"),
    ],
)
def test_a_wrong_type_is_refused_with_the_path_of_the_key(fields, path):
    """BOX-02, TBX-02"""
    reading = parse(**{"state": "running", **fields})
    assert reading.status is None
    assert reading.problem.startswith(f"status.json cannot be read: `{path}` must be ")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"{",
        b'{"state": "completed"',
        b'{"state": "completed"} trailing',
        b"completed",
        b'"completed"',
        b'["completed"]',
        b"null",
        b"{}",
        b'{"status": "completed"}',
        b"\0" * 100,
        b"\xff\xfe\x00\x01",
        '{"state": "completed"}'.encode("utf-16"),
        b"[" * 60_000,
        b'{"a":' * 12_000,
        b'{"state": "completed", "a": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"state": "completed", "n": ' + b"1" * 50_000 + b"}",
        b'{"state": "completed"}' + b" " * SIZE_LIMIT,
        b'{"state": "' + b"x" * 60_000 + b'"}',
    ],
)
def test_what_cannot_be_understood_is_a_problem_and_never_a_status(raw):
    """BOX-02, TBX-02: half-written, empty, binary, endless."""
    reading = parse_task_status(raw)
    assert reading.status is None
    assert reading.problem.startswith("status.json cannot be read: ")
    assert len(reading.problem) < 1000
    assert reading.problem.isprintable()


@pytest.mark.parametrize(
    ("fields", "finding"),
    [
        ({"progress": {"steps_completed": -1}}, "`progress.steps_completed` is not a whole number"),
        ({"progress": {"steps_completed": 1.5}}, "`progress.steps_completed` is not a whole number"),
        ({"progress": {"total_steps": 10**30}}, "`progress.total_steps` is not a whole number"),
        ({"progress": {"steps_completed": float("nan")}}, "`progress.steps_completed` is not a finite number"),
        ({"progress": {"steps_completed": 7, "total_steps": 5}}, "`progress.steps_completed` is more than"),
        ({"metrics": {"rows": float("inf")}}, "`metrics.rows` is not a finite number"),
        ({"seq": -3}, "`seq` is not a whole number"),
        ({"started": "yesterday"}, "`started` is not a time"),
        ({"started": "2024-01-15T10:30:00"}, "`started` is not a time"),
        ({"started": "0001-01-01T00:00:00+23:59"}, "`started` is not a time"),
        ({"started": "2024-01-15T10:30:00Z", "completed": "2024-01-15T10:29:00Z"}, "`completed` is before"),
    ],
)
def test_what_cannot_be_is_a_finding_on_a_status_that_can_be_used(fields, finding):
    """TBX-02 and TBX-17"""
    assert [found for found in findings(**fields) if found.startswith(finding)]


def test_a_number_without_end_counts_as_not_given():
    """TBX-17"""
    reading = parse_task_status(
        b'{"state": "running", "metrics": {"a": 1e999, "b": 2}, "progress": {"total_steps": NaN}}'
    )
    assert reading.status is not None
    assert reading.status.metrics == {"a": None, "b": 2}
    assert reading.status.progress == Progress()
    assert reading.status.findings == (
        "`metrics.a` is not a finite number",
        "`progress.total_steps` is not a finite number",
    )


def test_a_time_of_another_zone_is_converted():
    status = parse(state="running", started="2024-01-15T12:30:00+02:00").status
    assert status is not None
    assert status.started == STARTED


def test_texts_are_bounded_and_can_be_shown():
    error = {"type": "A\x07B", "message": "x" * 10_000, "details": {"rows": [1, 2]}}
    status = parse(state="failed", error=error, progress={"current_step": "\x1b[2Jstep\u202e"}).status
    assert status is not None
    assert status.error is not None
    assert status.error.type == "A\\x07B"
    assert len(status.error.message) == TEXT_LIMIT
    assert status.error.details == '{"rows": [1, 2]}'
    assert status.progress == Progress("\\x1b[2Jstep\\u202e")


@given(st.binary(max_size=300))
def test_no_bytes_raise(raw):
    reading = parse_task_status(raw)
    assert (reading.status is None) == bool(reading.problem)


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
times = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
documents = st.dictionaries(
    st.sampled_from(
        ["started", "completed", "error", "progress", "metrics", "attempt", "seq", "heartbeat", "more"]
    ),
    values
    | times
    | st.dictionaries(st.sampled_from(["type", "message", "details", "steps_completed", "total_steps"]), values),
)


@given(documents, st.sampled_from(["pending", "running", "completed", "failed"]))
def test_what_was_understood_is_understood_again_when_we_write_it(document, state):
    """BOX-02: no status that we accept becomes one that we would refuse, or another one."""
    first = parse(**{**document, "state": state}).status
    if first is None:
        return
    again = parse_task_status(json.dumps(document_of(first), allow_nan=False).encode()).status
    assert again is not None
    assert (again.state, again.error, again.metrics, again.more) == (
        first.state,
        first.error,
        first.metrics,
        first.more,
    )
    assert again.progress == (first.progress or Progress())
    assert (again.attempt, again.seq) == (first.attempt, first.seq)
    assert [t and int(t) for t in (again.started, again.completed, again.heartbeat)] == [
        t and int(t) for t in (first.started, first.completed, first.heartbeat)
    ]


# -- at the path ----------------------------------------------------------------------------------------------


def test_no_file_is_absent(folder):
    assert read_task_status(folder) == Reading(absent=True)


def make_link(path: Path) -> None:
    path.symlink_to("elsewhere")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_hard_link(path: Path) -> None:
    path.with_name("other").write_text(EXAMPLE)
    path.hardlink_to(path.with_name("other"))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(path))


def make_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (make_link, "Symbolic link refused"),
        (make_fifo, "but a FIFO"),
        (make_hard_link, "Hard link refused"),
        (make_socket, "but a socket"),
        (make_directory, "but a directory"),
    ],
)
def test_what_is_no_file_is_a_problem_without_blocking(tmp_path, folder, make, problem):
    """BOX-02, TBX-02"""
    make(tmp_path / "status.json")
    reading = read_task_status(folder)
    assert (reading.status, reading.absent) == (None, False)
    assert problem in reading.problem


def test_a_file_that_may_not_be_read_is_a_problem():
    """Root is stopped by no mode, so this test runs as somebody else."""
    was_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="sortie-test-") as home:
        Path(home, "status.json").write_text(EXAMPLE)
        Path(home, "status.json").chmod(0)
        Path(home).chmod(0o755)
        if was_root:
            os.seteuid(NOBODY)
        try:
            with open_directory(Path(home)) as descriptor:
                assert "Permission denied" in read_task_status(descriptor).problem
        finally:
            if was_root:
                os.seteuid(0)


# -- what we write --------------------------------------------------------------------------------------------


def test_pending_has_every_key_of_the_document(tmp_path, folder):
    """BOX-02"""
    written = write_pending(folder, attempt=2)
    document = json.loads((tmp_path / "status.json").read_text())
    assert set(json.loads(EXAMPLE)) <= set(document)
    assert (document["state"], document["started"], document["error"]) == ("pending", None, None)
    assert (document["attempt"], document["seq"], document["written_by"]) == (2, 1, "sortie")
    assert set(document["progress"]) == {"current_step", "steps_completed", "total_steps"}
    assert set(document["metrics"]) == {"files_processed", "outputs_generated"}
    assert read_task_status(folder).status == written
    assert stat.S_IMODE((tmp_path / "status.json").stat().st_mode) & 0o600 == 0o600


@pytest.mark.parametrize("make", [make_link, make_fifo, make_hard_link, make_socket])
def test_pending_takes_the_place_of_anything(tmp_path, folder, make):
    make(tmp_path / "status.json")
    written = write_pending(folder, attempt=1)
    assert read_task_status(folder).status == written
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_in_its_place_is_an_error(tmp_path, folder):
    (tmp_path / "status.json").mkdir()
    with pytest.raises(OSError, match=r"directory"):
        write_pending(folder, attempt=1)


def test_what_the_agent_did_not_say_is_added_to_what_it_said(tmp_path, folder):
    """BOX-02, BOX-06, TBX-01: nothing that the agent wrote is dropped."""
    said = parse(
        state="running",
        started="2024-01-15T10:30:00Z",
        progress={"current_step": "größe", "steps_completed": 3, "total_steps": 5},
        metrics={"files_processed": 12},
        attempt=1,
        seq=4,
        host="here",
    ).status
    assert said is not None
    gone = TaskError("AgentEnded", "The agent ended without a last word.", recoverable=True)
    write_on_behalf(folder, "failed", believed=said, started=STARTED + 5, completed=COMPLETED, error=gone)
    document = json.loads((tmp_path / "status.json").read_bytes())
    assert (document["state"], document["started"]) == ("failed", "2024-01-15T10:30:00Z")
    assert (document["completed"], document["seq"]) == ("2024-01-15T11:45:00Z", 5)
    assert document["progress"] == {"current_step": "größe", "steps_completed": 3, "total_steps": 5}
    assert (document["metrics"], document["host"]) == ({"files_processed": 12}, "here")
    assert document["error"] == {
        "type": "AgentEnded",
        "message": "The agent ended without a last word.",
        "details": "",
        "recoverable": True,
    }
    assert document["written_by"] == "sortie"


def test_an_agents_own_last_word_is_left_as_it_is(tmp_path, folder):
    """TBX-01: our verdict is never written over the agent's file."""
    (tmp_path / "status.json").write_text('{"state": "completed"}')
    said = read_task_status(folder).status
    assert said is not None
    assert write_on_behalf(folder, "failed", believed=said, error=TaskError("x")) is said
    assert (tmp_path / "status.json").read_text() == '{"state": "completed"}'


@pytest.mark.parametrize("key", ["notes", "metrics"])
def test_what_we_write_is_never_too_large_to_be_read(folder, key):
    """A long list takes more space in our lines than in the agent's one."""
    said = parse(state="running", **{key: {"list": [1] * 20_000}}).status
    assert said is not None
    write_on_behalf(folder, "failed", believed=said)
    again = read_task_status(folder).status
    assert again is not None
    assert again.state == "failed"
