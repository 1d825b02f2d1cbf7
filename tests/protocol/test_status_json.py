"""What `status.json` says to the one who runs its agent; and signals by their kind."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sortie.protocol.status_file import (
    REASON_LIMIT,
    STATUS_INSTRUCTIONS,
    Status,
    compose_first_prompt,
    delete_signal,
    read_signal,
)

SECRET = "AKIA-top-secret"


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def said(workspace: Path, **fields: object) -> Status:
    (workspace / "status.json").write_text(json.dumps(fields))
    return read_signal(workspace, "status.json")


@pytest.mark.parametrize("token", ["completed", "failed"])
def test_the_states_that_end_a_task_are_told_apart(workspace, token):
    assert said(workspace, state=token) == Status(token=token)


@pytest.mark.parametrize("state", ["pending", "running"])
def test_a_task_that_goes_on_says_nothing(workspace, state):
    assert said(workspace, state=state, started="2026-11-16T00:00:00Z") == Status()


def test_the_error_of_a_failed_task_reaches_people(workspace):
    error = {"type": "DataError", "message": "no rows\x1b[2J", "details": {}, "recoverable": True}
    assert said(workspace, state="failed", error=error) == Status(
        token="failed", reason="DataError: no rows\\x1b[2J"
    )


@pytest.mark.parametrize(("recoverable", "expected"), [(True, True), (False, False), (None, True)])
def test_only_a_plain_no_forbids_another_attempt(workspace, recoverable, expected):
    status = said(workspace, state="failed", error={"message": "x", "recoverable": recoverable})
    assert (status.reason, status.recoverable) == ("x", expected)


@pytest.mark.parametrize("state", ["blocked", "needs-human-review", "Completed", "done", "", "completed\n"])
def test_another_state_is_a_problem_and_no_verdict(workspace, state):
    """BOX-02: the four states of the document are the only ones."""
    status = said(workspace, state=state)
    assert status.token is None
    assert "`state` must be one of pending, running, completed, failed" in status.problem


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example writes the file anew
@given(
    state=st.sampled_from(["completed", "failed", "running", "blocked"]) | json_values,
    error=json_values | st.fixed_dictionaries({"type": st.text(), "message": st.text()}),
)
def test_only_the_state_decides(workspace, state, error):
    """BOX-02: whatever else is in it, a verdict is one of two states, and its text can be shown."""
    status = said(workspace, state=state, error=error)
    if status.token:
        assert status.token == state
    else:
        assert status.problem or state == "running"
    assert all(character == "\n" or character.isprintable() for character in status.reason + status.problem)
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
    secret.write_text(json.dumps({"state": "completed", "error": {"message": SECRET}}))
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


def test_without_a_workspace_there_is_a_problem(tmp_path):
    assert "No such file" in read_signal(tmp_path / "gone", "status.json").problem


def test_a_link_is_not_deleted(workspace, tmp_path):
    (tmp_path / "secret").touch()
    (workspace / "status.json").symlink_to(tmp_path / "secret")
    assert delete_signal(workspace, "status.json") == "skipped: Symbolic link refused: status.json"
    assert (workspace / "status.json").is_symlink()


@pytest.mark.parametrize("kind", ["status.json", "none"])
def test_only_issues_are_told_of_the_status_file(kind):
    assert compose_first_prompt("Do it.\n", "Tools.\n", kind) == "Do it.\n\nTools."
    assert compose_first_prompt("Do it.", signal=".sortie/status").endswith(STATUS_INSTRUCTIONS)
