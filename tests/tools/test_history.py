"""`workspace_history`: the exact fields, newest first, and a database in any condition."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import pytest

from sortie.tools.store_reading import problem_with
from sortie.tools.workspace_history import run_history

from .scene import RUNS, make_database


def test_the_answer_is_the_documented_object(project):
    """EXT-13: the exact fields, newest first."""
    answer = run_history(str(project.database), "abc123")
    assert json.dumps(answer) == json.dumps(
        {
            "issue_id": "abc123",
            "entries": [
                {
                    "attempt": 2,
                    "agent_adapter": "claude-code",
                    "started_at": "2026-03-30T14:20:00Z",
                    "completed_at": "2026-03-30T14:35:12Z",
                    "status": "failed",
                    "error": "agent turn error: turn timeout exceeded",
                },
                {
                    "attempt": 1,
                    "agent_adapter": "claude-code",
                    "started_at": "2026-03-30T13:00:00Z",
                    "completed_at": "2026-03-30T13:45:30Z",
                    "status": "succeeded",
                    "error": None,
                },
            ],
        }
    )


def test_an_issue_without_runs_has_no_entries(project):
    """EXT-13"""
    assert run_history(str(project.database), "42") == {"issue_id": "42", "entries": []}


def test_there_are_ten_entries_at_most_and_all_statuses(tmp_path):
    """EXT-13: at most 10, and `succeeded, failed, timed_out, stalled, cancelled`."""
    statuses = ["succeeded", "failed", "timed_out", "stalled", "cancelled"]
    rows = [(number + 1, "mock", "s", "c", statuses[number % 5], None) for number in range(12)]
    make_database(tmp_path / "db", {"1": rows, "2": RUNS})
    entries = run_history(str(tmp_path / "db"), "1")["entries"]
    assert [entry["attempt"] for entry in entries] == list(range(12, 2, -1))
    assert {entry["status"] for entry in entries} == set(statuses)


def test_a_locked_database_is_the_documented_error(project):
    """EXT-13: flat error."""
    holder = sqlite3.connect(project.database, isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        assert run_history(str(project.database), "1") == {"error": "query failed: database is locked"}
    finally:
        holder.close()


def test_a_database_without_the_table_is_an_error(tmp_path):
    sqlite3.connect(tmp_path / "db").close()
    assert run_history(str(tmp_path / "db"), "1") == {"error": "query failed: no such table: run_history"}


def test_nothing_is_ever_created_or_written(tmp_path):
    assert problem_with(str(tmp_path / "none")) == "unable to open database file"
    assert set(run_history(str(tmp_path / "none"), "1")) == {"error"}
    assert list(tmp_path.iterdir()) == []


KILLED_WRITER = """
import os, signal, sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("PRAGMA journal_mode = WAL")
store.execute("UPDATE run_history SET error = 'written last'")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_store_that_its_owner_left_unfinished_is_read_and_not_tidied_up(project):
    """EXT-13: opened read-only. Whoever could write would move the log of a killed service into the database."""
    subprocess.run([sys.executable, "-c", KILLED_WRITER, project.database], check=False, timeout=30)
    log = project.database.with_name(f"{project.database.name}-wal")
    before = project.database.read_bytes(), log.read_bytes()
    assert b"written last" in before[1] and b"written last" not in before[0]
    with project.start() as sidecar:
        entries = sidecar.call("workspace_history")["entries"]
        assert [entry["error"] for entry in entries] == ["written last"] * 2
        assert sidecar.finish()[0] == 0
    assert (project.database.read_bytes(), log.read_bytes()) == before


@pytest.mark.parametrize("name", ["a?mode=rwc", "a#b", "a%20b", "ü b"])
def test_any_file_name_will_do(tmp_path, name):
    make_database(tmp_path / name, {"1": RUNS})
    assert problem_with(str(tmp_path / name)) == ""
    assert len(run_history(str(tmp_path / name), "1")["entries"]) == 2


@pytest.mark.parametrize("content", [None, b"not a database at all, but long enough to be looked at" * 20])
def test_a_database_that_cannot_be_opened_costs_only_this_tool(project, content):
    """EXT-13: a failed open is not fatal."""
    project.database.unlink()
    if content is not None:
        project.database.write_bytes(content)
    with project.start() as sidecar:
        assert sidecar.names() == ["tracker_api", "sortie_status"]
        sidecar.finish()
        assert "workspace_history is left out" in sidecar.errors


def test_the_sidecar_answers_while_the_store_is_written(sidecar, project):
    writer = sqlite3.connect(project.database, isolation_level=None)
    try:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM run_history")
        assert len(sidecar.call("workspace_history")["entries"]) == 2
        writer.execute("COMMIT")
        assert sidecar.call("workspace_history")["entries"] == []
    finally:
        writer.close()
