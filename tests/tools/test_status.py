"""`sortie_status`: the exact fields, and every state a file can be in."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

import pytest

from sortie.tools.sortie_status import session_status

from .scene import STATE, Project

NOW = datetime(2026, 3, 30, 14, 22, 22, 537_400, tzinfo=UTC)
MISSING = {"error": "state file unavailable: open .sortie/state.json: no such file or directory"}


def with_state(project: Project, **changes: Any) -> dict[str, Any]:
    project.state.write_text(json.dumps({**STATE, **changes}))
    return session_status(project.workspace, NOW)


def test_the_answer_is_the_documented_object(project):
    """EXT-11: the exact fields, in the documented order."""
    assert json.dumps(session_status(project.workspace, NOW)) == json.dumps(
        {
            "turn_number": 3,
            "max_turns": 20,
            "turns_remaining": 17,
            "attempt": None,
            "session_duration_seconds": 142.537,
            "tokens": {
                "input_tokens": 45000,
                "output_tokens": 12000,
                "total_tokens": 57000,
                "cache_read_tokens": 8000,
            },
        }
    )


def test_turns_remaining_is_never_negative(project):
    """EXT-11"""
    assert with_state(project, turn_number=25)["turns_remaining"] == 0


def test_the_attempt_of_a_retry_is_a_number(project):
    assert with_state(project, attempt=2)["attempt"] == 2


@pytest.mark.parametrize(
    ("started", "seconds"),
    [
        ("2026-03-30T14:22:22.537Z", 0.0),
        ("2026-03-30T16:20:00+02:00", 142.537),
        ("2026-03-30T14:20:00.123456789Z", 142.414),
        ("2026-03-31T00:00:00Z", 0.0),
    ],
)
def test_the_duration_has_milliseconds_and_is_never_negative(project, started, seconds):
    answer = with_state(project, started_at=started)["session_duration_seconds"]
    assert isinstance(answer, float)
    assert answer == seconds


def test_a_file_that_is_not_there_yet_is_the_documented_error(project):
    """EXT-11: flat error."""
    project.state.unlink()
    assert session_status(project.workspace) == MISSING
    project.state.parent.rmdir()
    assert session_status(project.workspace) == MISSING
    project.workspace.rmdir()
    assert session_status(project.workspace) == MISSING


def replace_by_link(state):
    state.rename(state.with_name("real"))
    state.symlink_to("real")


def replace_by_hard_link(state):
    os.link(state, state.with_name("second"))


def replace_by_pipe(state):
    state.unlink()
    os.mkfifo(state)


def replace_by_directory(state):
    state.unlink()
    state.mkdir()


def link_the_folder(state):
    state.parent.rename(state.parent.with_name("real"))
    state.parent.symlink_to("real")


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (replace_by_link, "symbolic link"),
        (replace_by_hard_link, "hard link"),
        (replace_by_pipe, "FIFO"),
        (replace_by_directory, "directory"),
        (link_the_folder, "symbolic link"),
    ],
)
def test_anything_but_a_plain_file_is_refused(project, spoil, word):
    """EXT-11: links are rejected."""
    spoil(project.state)
    answer = session_status(project.workspace)
    assert set(answer) == {"error"}
    assert answer["error"].startswith("state file unavailable: .sortie/state.json: ")
    assert word in answer["error"]


def test_a_file_of_four_kibibytes_is_read_and_a_larger_one_refused(project):
    """EXT-11"""
    text = json.dumps(STATE)
    project.state.write_text(text.ljust(4096))
    assert session_status(project.workspace, NOW)["turn_number"] == 3
    project.state.write_text(text.ljust(4097))
    assert session_status(project.workspace, NOW) == {
        "error": "state file unavailable: .sortie/state.json: larger than 4096 bytes"
    }


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 4000])
def test_what_is_not_a_json_object_is_an_error(project, content):
    project.state.write_bytes(content)
    assert set(session_status(project.workspace)) == {"error"}


@pytest.mark.parametrize(
    "change",
    [
        {"turn_number": "3"},
        {"turn_number": True},
        {"max_turns": None},
        {"max_turns": -1},
        {"attempt": "two"},
        {"input_tokens": 1.5},
        {"started_at": "yesterday"},
        {"started_at": "2026-03-30T14:20:00"},
        {"started_at": 5},
    ],
)
def test_a_field_that_is_wrong_is_named(project, change):
    (name,) = change
    assert name in with_state(project, **change)["error"]


def test_the_sidecar_reads_the_file_at_each_call(sidecar, project):
    assert sidecar.call("sortie_status")["turn_number"] == 3
    with_state(project, turn_number=4)
    assert sidecar.call("sortie_status", {})["turn_number"] == 4
    project.state.unlink()
    result = sidecar.ask("tools/call", {"name": "sortie_status"})["result"]
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"]) == MISSING
