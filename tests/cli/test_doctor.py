"""`sortie doctor`: one line for each check, the fix where one fails, nothing changed."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from .scene import REVIEW, WAIT, Said, ask, wait_until


@pytest.fixture
def doctor(scene, capsys):
    return lambda *arguments: ask(capsys, "doctor", str(scene.workflow), *arguments)


def verdicts(said: Said) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in said.json()["checks"]}


def test_a_good_scene_passes_and_nothing_is_made(scene, doctor):
    scene.issue(1, REVIEW)
    before = sorted(scene.directory.iterdir())
    said = doctor()
    assert said.code == 0, said.out
    *checks, total = said.out.splitlines()
    assert all(re.match(r"(PASS|WARN)  \S", line) for line in checks)
    assert "0 failed" in total
    assert "PASS  tracker (file): 1 active issue" in checks
    assert sorted(scene.directory.iterdir()) == before
    assert verdicts(doctor("--json"))["workflow"]["verdict"] == "PASS"


def test_a_missing_program_fails_with_the_fix(scene, doctor):
    text = scene.workflow.read_text().replace("kind: command", "kind: command\n  command: FOO=1 no-such-agent -p")
    scene.workflow.write_text(text)
    said = doctor("--json")
    assert said.code == 1
    assert said.json()["ok"] is False
    check = verdicts(said)["agent (command)"]
    assert check["verdict"] == "FAIL"
    assert "no-such-agent" in check["detail"] and "agent.command" in check["fix"]


def test_a_command_with_a_name_too_long_for_any_file_fails_with_the_fix(scene, doctor):
    name = "./" + 300 * "a"
    text = scene.workflow.read_text().replace("kind: command", f"kind: command\n  command: {name}")
    scene.workflow.write_text(text)
    check = verdicts(doctor("--json"))["agent (command)"]
    assert (check["verdict"], "File name too long" in check["detail"]) == ("FAIL", True)
    assert "agent.command" in check["fix"]


def test_a_script_that_is_not_executable_fails_with_the_fix(scene, doctor):
    (scene.directory / "agent.sh").chmod(0o644)
    check = verdicts(doctor("--json"))["agent (command)"]
    assert (check["verdict"], check["fix"][:13]) == ("FAIL", "Run: chmod +x")


def test_a_broken_workflow_fails_with_its_lines_and_the_rest_is_left_out(scene, doctor):
    scene.workflow.write_text("---\ntracker: {kind: fiel, active_states: [a]}\n---\nx")
    said = doctor()
    assert said.code == 1
    assert re.search(r"^FAIL  workflow: .*:2: tracker.kind", said.out, re.MULTILINE)
    assert "tracker (" not in said.out


def test_an_unreadable_tracker_fails(scene, doctor):
    (scene.directory / "issues.json").unlink()
    check = verdicts(doctor("--json"))["tracker (file)"]
    assert check["verdict"] == "FAIL"
    assert "issues.json" in check["detail"]


def test_a_running_service_is_named(scene, doctor, say):
    scene.issue(1, WAIT + REVIEW)
    with scene.service() as service:
        wait_until(lambda: "standing by" in say("logs", "T-1").out)
        check = verdicts(doctor("--json"))["store"]
    assert check["verdict"] == "PASS"
    assert f"pid {service.pid}" in check["detail"]


def test_a_store_of_another_program_fails(scene, doctor):
    (scene.directory / ".sortie.db").write_text("not a database, but long enough to look at" * 20)
    check = verdicts(doctor("--json"))["store"]
    assert (check["verdict"], bool(check["fix"])) == ("FAIL", True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_fails(scene, doctor):
    locked = scene.directory / "locked"
    locked.mkdir(mode=0o500)
    text = scene.workflow.read_text().replace("polling:", "workspace: {root: locked/deep}\npolling:")
    scene.workflow.write_text(text)
    check = verdicts(doctor("--json"))["workspaces"]
    assert check["verdict"] == "FAIL"


def findings(said: Said, name: str) -> list[str]:
    return [f"{check['verdict']} {check['detail']}" for check in said.json()["checks"] if check["name"] == name]


def test_states_that_the_workflow_does_not_name_are_named(scene, doctor):
    scene.workflow.write_text(scene.workflow.read_text().replace("[To Do, In Progress]", "[Todo, In Progress]"))
    for number, state in enumerate(["To Do", "To Do", "Done"]):
        scene.issue(number, REVIEW, state=state)
    said = doctor("--json")
    assert findings(said, "tracker (file)") == ["PASS 0 active issues; left alone: To Do (2)"]
    (found,) = findings(said, "issues")
    assert found == "WARN no issue is in an active state (Todo, In Progress): the tracker has To Do (2), Done (1)."
    assert "tracker.active_states" in verdicts(said)["issues"]["fix"]
    assert said.code == 0


def test_every_bad_record_and_every_blocker_that_is_nobody_is_listed(scene, doctor):
    scene.issue(1, REVIEW, title=3)
    scene.issue(2, REVIEW, priority="high", labels="ui")
    scene.issue(3, REVIEW, blocked_by=["T-4", "T-99", {"id": "98"}])
    scene.issue(4, REVIEW, blocked_by=[{"identifier": "ELSEWHERE-1", "state": "To Do"}])
    said = doctor("--json")
    first, second = findings(said, "record")
    assert "record 1 (T-1) cannot be used: `title` must be text" in first
    assert "record 2 (T-2) cannot be used: `priority` must be" in second and "`labels` must be" in second
    assert findings(said, "issues") == [
        "WARN T-3 does not start: it is blocked by T-99 (not in the tracker), 98 (not in the tracker)."
    ]


def test_a_script_that_cannot_start_fails_with_the_fix(scene, doctor):
    agent = scene.directory / "agent.sh"
    agent.write_bytes(agent.read_bytes().replace(b"\n", b"\r\n"))
    said = doctor("--json")
    assert said.code == 1
    assert "(CRLF)" in verdicts(said)["agent (command)"]["detail"]
    assert f"sed -i 's/\\r$//' {agent}" in verdicts(said)["agent (command)"]["fix"]


def test_what_git_would_commit_of_ours_is_warned_of(scene, doctor, say):
    """The store and what lies beside it may hold secrets; git itself is asked, so every way to ignore counts."""
    assert "repository" not in verdicts(doctor("--json"))
    subprocess.run(["git", "init", "--quiet"], cwd=scene.directory, check=True)
    said = doctor("--json")
    check = verdicts(said)["repository"]
    assert (said.code, check["verdict"]) == (0, "WARN")
    assert all(name in check["detail"] for name in (".sortie.db", ".sortie.logs", ".sortie.archive", "workspaces"))
    (scene.directory / ".git/info/exclude").write_text(".sortie.*\n")
    check = verdicts(doctor("--json"))["repository"]
    assert "workspaces" in check["detail"] and ".sortie" not in check["detail"]
    (scene.directory / ".gitignore").write_text(re.findall(r"\S*workspaces/", check["fix"])[0])
    assert "repository" not in verdicts(doctor("--json"))


def test_without_git_nobody_is_warned_of_a_repository(scene, doctor, monkeypatch):
    subprocess.run(["git", "init", "--quiet"], cwd=scene.directory, check=True)
    (scene.directory / "bin").mkdir()
    (scene.directory / "bin/sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(scene.directory / "bin"))
    assert "repository" not in verdicts(doctor("--json"))


def test_a_work_log_is_looked_at_and_not_made(scene, doctor):
    """LOG-14"""
    text = scene.workflow.read_text().replace("agent:\n", "worklog: WORKLOG.md\nagent:\n", 1)
    scene.workflow.write_text(text)
    check = verdicts(doctor("--json"))["work log"]
    assert (check["verdict"], check["detail"]) == ("PASS", f"{scene.directory} can be written")
    assert not (scene.directory / "WORKLOG.md").exists()
    assert not (scene.directory / ".sortie").exists()
    (scene.directory / ".sortie").touch()
    check = verdicts(doctor("--json"))["work log"]
    assert (check["verdict"], check["detail"]) == ("FAIL", f"{scene.directory}/.sortie cannot be written.")
    (scene.directory / "WORKLOG.md").mkdir()
    check = verdicts(doctor("--json"))["workflow"]
    assert "WORKLOG.md is a directory" in check["detail"]
