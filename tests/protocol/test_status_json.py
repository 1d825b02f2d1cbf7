"""What `status.json` means, for every content and all that can stand at its path; and signals by their kind."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortie.protocol.status_file import (
    JSON_LIMIT,
    REASON_LIMIT,
    STATUS_INSTRUCTIONS,
    UNRECOGNISED_LIMIT,
    Status,
    compose_first_prompt,
    delete_signal,
    parse_status_json,
    read_signal,
)

TOKENS = ["completed", "failed", "blocked", "needs-human-review"]
SECRET = "AKIA-top-secret"


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def said(**fields: object) -> Status:
    return parse_status_json(json.dumps(fields).encode())


@pytest.mark.parametrize("token", TOKENS)
def test_the_states_that_end_a_task_are_told_apart(token):
    assert said(state=token) == Status(token=token)


@pytest.mark.parametrize("state", ["pending", "running"])
def test_a_task_that_goes_on_says_nothing(state):
    assert said(state=state, started="2026-11-16T00:00:00Z", progress={"current_step": "x"}) == Status()


def test_the_error_of_a_failed_task_reaches_people():
    error = {"type": "DataError", "message": "no rows\x1b[2J", "details": {}, "recoverable": True}
    assert said(state="failed", error=error) == Status(token="failed", reason="DataError: no rows\\x1b[2J")


@pytest.mark.parametrize(("recoverable", "expected"), [(True, True), (False, False), ("no", True), (None, True)])
def test_only_a_plain_no_forbids_another_attempt(recoverable, expected):
    status = said(state="failed", error={"message": "x", "recoverable": recoverable})
    assert (status.reason, status.recoverable) == ("x", expected)


@pytest.mark.parametrize(
    ("error", "reason"), [("no rows", "no rows"), (None, ""), (7, ""), ([], ""), ({"message": [1]}, "")]
)
def test_an_error_of_another_form_is_no_obstacle(error, reason):
    assert said(state="failed", error=error) == Status(token="failed", reason=reason)


@pytest.mark.parametrize("state", ["Completed", "done", "", " completed", "completed\n", "\ud800"])
def test_another_word_is_unrecognised(state):
    status = said(state=state)
    assert status.token is None
    assert status.present
    assert status.unrecognised == state.encode("utf-8", "replace")


def test_a_long_word_is_cut():
    assert said(state="x" * 5000).unrecognised == b"x" * UNRECOGNISED_LIMIT


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
        b'{"state": null}',
        b'{"state": 1}',
        b'{"state": ["completed"]}',
        b'{"state": {"state": "completed"}}',
        b'{"status": "completed"}',
        b"\0" * 100,
        b"\xff\xfe\x00\x01",
        '{"state": "completed"}'.encode("utf-16"),
        b"[" * 60_000,
        b'{"a":' * 12_000,
        b'{"state": "completed", "n": ' + b"1" * 50_000 + b"}",
        b'{"state": "completed"}' + b" " * JSON_LIMIT,
    ],
)
def test_what_cannot_be_understood_is_a_problem_and_never_a_verdict(raw):
    status = parse_status_json(raw)
    assert (status.token, status.unrecognised) == (None, None)
    assert status.problem.startswith("status.json cannot be read: ")
    assert len(status.problem) < REASON_LIMIT + 100
    assert status.problem.isprintable()


def test_a_mark_of_the_byte_order_and_windows_lines_are_accepted():
    assert parse_status_json(b'\xef\xbb\xbf{\r\n"state": "completed"\r\n}\r\n').token == "completed"


@given(st.binary(max_size=300))
def test_no_bytes_raise(raw):
    parse_status_json(raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(
    st.dictionaries(
        st.sampled_from(["state", "error", "started"]) | st.text(), json_values | st.sampled_from(TOKENS)
    )
)
def test_only_the_state_decides(document):
    status = parse_status_json(json.dumps(document).encode())
    state = document.get("state")
    assert status.token == (state if isinstance(state, str) and state in TOKENS else None)
    assert all(character == "\n" or character.isprintable() for character in status.reason)
    assert len(status.reason) <= REASON_LIMIT


def place_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def place_hard_link(path: Path, secret: Path) -> None:
    path.hardlink_to(secret)


def place_fifo(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def place_directory(path: Path, secret: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (place_link, "Symbolic link refused: status.json"),
        (place_hard_link, "Hard link refused: status.json"),
        (place_fifo, "Not a regular file but a FIFO: status.json"),
        (place_directory, "Not a regular file but a directory: status.json"),
    ],
)
def test_every_obstacle_is_a_problem_with_a_clear_text(workspace, tmp_path, place, problem):
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({"state": "completed", "error": SECRET}))
    place(workspace / "status.json", secret)
    status = read_signal(workspace, "status.json")
    assert status == Status(problem=f"status.json cannot be read: {problem}")


def test_a_file_of_any_size_costs_its_first_bytes_only(workspace):
    with (workspace / "status.json").open("wb") as file:
        file.write(b'{"state": "completed"}')
        file.truncate(1 << 40)
    assert "larger than 64 KiB" in read_signal(workspace, "status.json").problem


def test_each_kind_of_signal_is_read_in_its_own_place(workspace):
    (workspace / "status.json").write_text('{"state": "completed"}')
    (workspace / ".sortie").mkdir()
    (workspace / ".sortie/status").write_text("blocked\n")
    descriptor = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for place in (workspace, descriptor):
            assert read_signal(place, "status.json") == Status(token="completed")
            assert read_signal(place, ".sortie/status") == Status(token="blocked")
            assert read_signal(place, "none") == Status()
    finally:
        os.close(descriptor)
    assert delete_signal(workspace, "none") == "absent"
    assert delete_signal(workspace, "status.json") == "deleted"
    assert delete_signal(workspace, "status.json") == "absent"
    assert read_signal(workspace, "status.json") == Status()
    assert delete_signal(workspace, ".sortie/status") == "deleted"


def test_a_link_is_not_deleted(workspace, tmp_path):
    (tmp_path / "secret").touch()
    (workspace / "status.json").symlink_to(tmp_path / "secret")
    assert delete_signal(workspace, "status.json") == "skipped: Symbolic link refused: status.json"
    assert (workspace / "status.json").is_symlink()


@pytest.mark.parametrize("kind", ["status.json", "none"])
def test_only_issues_are_told_of_the_status_file(kind):
    assert compose_first_prompt("Do it.\n", "Tools.\n", kind) == "Do it.\n\nTools."
    assert compose_first_prompt("Do it.", signal=".sortie/status").endswith(STATUS_INSTRUCTIONS)
