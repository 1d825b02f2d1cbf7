"""Commands on a store that is not what it should be: nobody waits for ever, and what can be shown is shown."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing

import pytest

from .scene import BLOCK, DEADLINE, REVIEW, Scene

COMMANDS = {
    "run": ("run", "--until-idle"),
    "dry run": ("run", "--dry-run"),
    "status": ("status",),
    "history": ("history",),
    "why": ("why", "T-1"),
    "logs": ("logs", "T-1"),
    "unpark": ("unpark", "T-1"),
    "doctor": ("doctor",),
}


def outcomes(scene: Scene) -> dict[str, tuple[int, str]]:
    """All commands at once; one that hangs is an error here."""
    started = {name: scene.background(*arguments) for name, arguments in COMMANDS.items()}
    try:
        said = {name: "".join(process.communicate(timeout=DEADLINE)) for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
    return {name: (process.returncode, said[name]) for name, process in started.items()}


@pytest.mark.parametrize("part", ["", ".lock"])
def test_a_fifo_in_the_place_of_the_store_or_its_lock_makes_nobody_wait(scene, part):
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    place = scene.directory / f".sortie.db{part}"
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    for name, (code, said) in outcomes(scene).items():
        if part == ".lock" and name in ("dry run", "history", "logs"):
            assert code == 0, (name, said)  # they need not know who runs
        else:
            assert code == 1, (name, said)
            assert f"{place} is not a regular file" in said, name


def test_a_store_that_lacks_a_table_is_told_as_damaged(scene):
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    with closing(sqlite3.connect(scene.directory / ".sortie.db")) as db:
        db.execute("DROP TABLE claims")
    said = outcomes(scene)
    for name in ("run", "status", "why", "unpark"):
        assert said[name][0] == 1
        assert "is damaged (no such table: claims). Restore it from a copy, or move it away" in said[name][1], name
    assert [name for name, (_, told) in said.items() if "unforeseen" in told] == []


def test_a_fifo_in_the_place_of_the_issues_makes_nobody_wait(scene):
    (scene.directory / "issues.json").unlink()
    os.mkfifo(scene.directory / "issues.json")
    assert scene.run("run", "--until-idle").returncode == 1
    assert scene.run("doctor").returncode == 1


def test_a_fifo_in_the_place_of_the_workflow_makes_nobody_wait(scene):
    """Who only looks sees the store all the same."""
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    scene.workflow.unlink()
    os.mkfifo(scene.workflow)
    said = outcomes(scene)
    assert "WORKFLOW.md is broken" in said["status"][1]
    refused = {name: code for name, (code, _) in said.items() if code}
    assert refused == {"run": 2, "dry run": 2, "doctor": 1}


@pytest.mark.parametrize("part", ["", "-wal"])
def test_the_tool_server_does_not_wait_for_a_fifo(scene, part):
    store = scene.directory / "store.db"
    store.touch()
    place = scene.directory / f"store.db{part}"
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "workspace_history"}}
    served = subprocess.run(
        scene.command("mcp-server", "--workflow", str(scene.workflow)),
        env={**os.environ, "SORTIE_DB_PATH": str(store), "SORTIE_ISSUE_ID": "1"},
        input=json.dumps(call) + "\n",
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert served.returncode == 0
    assert f"{place} is not a regular file" in served.stdout + served.stderr


# -- rows that cannot be understood ---------------------------------------------------------------------------


@pytest.fixture
def spoilt(scene):
    """T-1 is handed off, T-2 parked; then somebody writes nonsense into the store."""
    scene.issue(1, REVIEW)
    scene.issue(2, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    database = scene.directory / ".sortie.db"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("DROP TRIGGER events_are_never_changed")
        db.execute("UPDATE events SET data = '{' WHERE kind = 'turn' AND issue_id = '2'")
        db.execute("UPDATE events SET data = CAST(x'7bff' AS TEXT) WHERE kind = 'session' AND issue_id = '2'")
        db.execute(
            """INSERT INTO events (at, kind, issue_id, data)
               VALUES (1774880400.0, 'levitated', '2', '{"event": "levitated", "at": 1774880400.0}')"""
        )
        db.execute("UPDATE issues SET data = 'nonsense' WHERE issue_id = '2'")
        db.execute("UPDATE parked SET reason = CAST(x'6e6fff' AS TEXT)")
        db.execute("UPDATE run_history SET started_at = 'soon' WHERE issue_id = '2'")
        db.execute("UPDATE run_history SET reason = CAST(x'ff' AS TEXT) WHERE issue_id = '1'")
    return database


def test_status_shows_the_rest_and_says_what_is_bad(spoilt, say):
    shown = say("status")
    assert shown.code == 0
    assert "T-2" in shown.out and "parked (1)" in shown.out
    assert "cannot tell what the tracker showed of T-2" in shown.err
    assert [item["reason"] for item in say("status", "--json").json()["parked"]] == ["no\ufffd"]


def test_why_tells_the_story_around_what_is_bad(spoilt, say):
    told = say("why", "T-2")
    assert told.code == 0
    assert told.out.startswith("It is parked since")
    assert "of kind turn" in told.out
    assert "of kind levitated" in told.out, "an entry of a later version"
    assert "started run" in told.out
    assert "cannot tell what the tracker showed of T-2" in told.err


def test_history_and_logs_show_the_rest(spoilt, say):
    rows = {row["identifier"]: row for row in say("history", "--json").json()}
    assert set(rows) == {"T-1", "T-2"}
    assert "the times of this run cannot be read" in rows["T-2"]["error"]
    assert say("history").code == 0
    assert say("logs", "T-1").code == 0
    assert "working" in say("logs", "T-1").out


def test_the_service_goes_on_and_says_what_is_bad(spoilt, scene):
    again = scene.run("run", "--until-idle")
    assert again.returncode == 3, again.stderr
    assert "cannot tell what the tracker showed of T-2" in again.stderr


# -- a read-only file system ----------------------------------------------------------------------------------

READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'


def can_mount() -> bool:
    probe = ["unshare", "-m", "sh", "-c", "mount --bind /mnt /mnt"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True).returncode == 0


def read_only(scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    inside = ["unshare", "-m", "sh", "-c", READ_ONLY, str(scene.directory), *scene.command(*arguments)]
    return subprocess.run(inside, cwd=scene.directory.parent, capture_output=True, text=True, timeout=DEADLINE)


@pytest.mark.skipif("not can_mount()", reason="NOT TESTED: read-only mounts, which need root and CAP_SYS_ADMIN")
@pytest.mark.parametrize("left", ["nothing", "the log alone", "log and index"])
def test_a_read_only_mount_hides_nothing_that_can_be_read(scene, left):
    """What is in the log of a service that was killed cannot be read there without its index, and that is said."""
    scene.issue(1, BLOCK)
    assert scene.run("run", "--until-idle").returncode == 3
    workflow, database = str(scene.workflow), scene.directory / ".sortie.db"
    with closing(sqlite3.connect(database)) as db:
        if left == "log and index":
            with db:
                db.execute("UPDATE parked SET since = since + 1")
        elif left == "the log alone":
            database.with_name(".sortie.db-wal").write_bytes(b"x" * 4096)
        answers = {
            command[0]: read_only(scene, *command, "-w", workflow)
            for command in (("status",), ("history",), ("why", "T-1"), ("logs", "T-1"))
        }
    for name, answer in answers.items():
        assert answer.returncode == 0, (name, answer.stderr)
        assert ("The last changes are missing" in answer.stderr) == (left == "the log alone"), name
    assert "no access" in answers["status"].stdout
    assert "T-1" in answers["history"].stdout
    assert answers["why"].stdout.startswith("It is parked since")
