"""`sortie demo`: goes as scripted, explains itself, and what it leaves behind can be looked at."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from .scene import ask


def test_the_demo_goes_as_scripted_and_can_be_looked_at(tmp_path, capsys):
    place = tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, "-m", "sortie", "demo", "--keep", str(place), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "SORTIE_TRACKER_KIND": "elsewhere"},
    )
    played = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert played["ok"] and len(played["checks"]) == 6
    outcomes = {issue["issue"]: issue["outcome"] for issue in played["issues"]}
    assert outcomes == {f"DEMO-{number}": "parked" if number == 2 else "handed off" for number in range(1, 7)}
    assert f"It runs in {place}, which stays" in done.stderr.splitlines()[0]
    assert "DEMO-1 turn 2 started" in done.stderr
    workflow = str(place / "WORKFLOW.md")
    assert ask(capsys, "validate", workflow).code == 0
    why = ask(capsys, "why", "DEMO-3", "-w", workflow)
    assert "Segmentation fault" in why.out and "attempt 2" in why.out
    assert "no time for tests" in ask(capsys, "logs", "DEMO-1", "-w", workflow).out


def test_a_directory_in_use_is_refused(tmp_path, capsys):
    (tmp_path / "mine").touch()
    said = ask(capsys, "demo", "--keep", str(tmp_path))
    assert said.code == 1
    assert "not empty" in said.err


def test_where_nobody_reads_nothing_is_left(tmp_path):
    """A demo whose reader left before it began makes no directory."""
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-m", "sortie", "demo"]
    environ = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, env=environ)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_the_demo_of_a_plan_goes_as_scripted_and_what_it_advises_works(tmp_path):
    place = tmp_path / "demo"
    environ = {"PATH": "/usr/bin:/bin", "COLUMNS": "60"}
    argv = [sys.executable, "-m", "sortie", "demo", "plan", "--keep", str(place)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environ, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  ✓ ") == 6 and "✗" not in done.stdout
    assert "credits started run" in done.stderr
    advice = [re.split(r"  +", line.strip())[1] for line in done.stdout.partition("What next\n")[2].splitlines()]
    assert [line.partition(" -m sortie ")[2].split()[:2] for line in advice[:-1]] == [
        ["plan", verb] for verb in ("why", "graph", "fix", "accept", "run", "collect")
    ]
    for command in advice:
        tried = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=50, env=environ)
        assert tried.returncode == 0, command + tried.stderr
    assert not place.exists()


def test_the_demo_of_a_plan_for_programs(tmp_path, capsys):
    said = ask(capsys, "demo", "plan", "--keep", str(tmp_path / "demo"), "--json")
    played = json.loads(said.out)
    assert said.code == 0 and played["ok"] and len(played["checks"]) == 6
    assert {task["task"] for task in played["tasks"] if task["state"] != "completed"} == {
        "review",
        "announce",
        "benchmarks",
        "speed",
    }


def test_the_demo_of_peers_goes_as_scripted_and_what_it_advises_works(tmp_path):
    """LOG-01 LOG-08 LOG-11 LOG-12: a session from the charter to the last turn, each turn asked for by a person.
    It goes the same way where an agent starts it: the maintainer is played by the demo."""
    place = tmp_path / "demo"
    environ = {"PATH": "/usr/bin:/bin", "COLUMNS": "80"}
    argv = [sys.executable, "-m", "sortie", "demo", "peers", "--keep", str(place)]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=60,
        env={**environ, "CLAUDECODE": "1", "SORTIE_RUN_ID": "r1", "GIT_DIR": str(tmp_path)},
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  ✓ ") == 6 and "✗" not in done.stdout
    assert "claimed, completed, handoff, escalation (2)" in done.stdout
    assert "$ sortie turn ada --task 'Do what was decided.'" in done.stderr
    assert "$ sortie turn" not in done.stdout
    advice = [re.split(r"  +", line.strip())[1] for line in done.stdout.partition("What next\n")[2].splitlines()]
    assert len(advice) == 8
    for command in advice:
        tried = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=50, env=environ)
        assert tried.returncode == 0, command + tried.stderr
    assert not place.exists()


def test_the_demo_of_peers_for_programs(tmp_path, capsys):
    said = ask(capsys, "demo", "peers", "--keep", str(tmp_path / "demo"), "--json")
    played = json.loads(said.out)
    assert said.code == 0 and played["ok"] and len(played["checks"]) == 6
    assert [turn["agent"] for turn in played["turns"]] == ["ada", "ben", "ada", "ada", "ben"]
    assert {event["session_id"] for event in played["events"]} == {"greetings-1"}


def test_the_demo_of_peers_says_what_it_needs(tmp_path):
    """Without git there is no turn, and no traceback either."""
    (tmp_path / "bin").mkdir()
    argv = [sys.executable, "-m", "sortie", "demo", "peers", "--keep", str(tmp_path / "demo")]
    environ = {"PATH": str(tmp_path / "bin")}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environ, encoding="utf-8")
    assert (done.returncode, "git was not found" in done.stderr) == (1, True), done.stderr


def test_another_demo_than_there_is_is_refused(capsys):
    said = ask(capsys, "demo", "circus")
    assert said.code == 2 and "'issues', 'plan', 'peers'" in said.err
