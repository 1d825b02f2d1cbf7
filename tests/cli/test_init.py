"""`sortie init`: what it writes is valid, runs at once, and never overwrites."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sortie.cli.init import AGENTS
from sortie.plugins import kinds
from sortie.workflow.loader import load

from .scene import ask


@pytest.mark.parametrize("agent", ["command", "mock"])
def test_the_result_is_valid_and_works_at_once(agent, tmp_path, capsys):
    directory = tmp_path / "new" / "project"
    said = ask(capsys, "init", str(directory), "--agent", agent)
    assert said.code == 0
    workflow = str(directory / "WORKFLOW.md")
    assert workflow in said.out
    assert ask(capsys, "validate", workflow, "--json").json() == {"valid": True, "errors": [], "warnings": []}
    done = subprocess.run(
        [sys.executable, "-m", "sortie", "run", workflow, "--until-idle"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("handed off") == 2
    states = [issue["state"] for issue in json.loads((directory / "issues.json").read_text())]
    assert states == ["In Review", "In Review"]


PROGRAM = Path(sys.executable).with_name("sortie")


def said_by(place, path, *argv):
    environ = os.environ | {"PATH": path}
    return subprocess.run(argv, cwd=place, env=environ, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("start", [[PROGRAM], [sys.executable, "-m", "sortie"]])
def test_the_commands_it_suggests_work_as_printed(start, tmp_path):
    """However it was started, and whatever the directory is called."""
    path = "/usr/bin:/bin"
    suggested = said_by(tmp_path, path, *start, "init", "my project").stdout.partition("Next:\n")[2].splitlines()
    assert len(suggested) == 2
    for command in suggested:
        done = said_by(tmp_path, path, "sh", "-c", command)
        assert done.returncode == 0, (command, done.stderr)


def test_a_command_on_the_path_is_called_by_its_name(tmp_path):
    with_us = f"{PROGRAM.parent}:/usr/bin:/bin"
    assert "\n  sortie doctor\n" in said_by(tmp_path, with_us, "sortie", "init").stdout
    assert "Start `sortie run` first." in said_by(tmp_path, with_us, "sortie", "history").stderr
    assert f"Start `{PROGRAM} run` first." in said_by(tmp_path, "/usr/bin:/bin", PROGRAM, "history").stderr


@pytest.mark.parametrize("agent", list(AGENTS))
def test_whoever_works_the_key_stays_with_the_service_and_other_issues_where_they_are(agent, tmp_path, capsys):
    """EXT-01 EXT-09: what a new project begins with."""
    assert ask(capsys, "init", str(tmp_path), "--agent", agent).code == 0
    tools = load(tmp_path / "WORKFLOW.md", environ={}, kinds=kinds()).config.tools
    assert (tools.credentials, tools.transitions) == ("broker", "own")


def test_without_a_terminal_nothing_is_asked(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "sortie", "init"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == 0
    assert os.access(tmp_path / "agent.sh", os.X_OK)


def test_on_a_terminal_the_agent_is_asked_for(tmp_path):
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sortie", "init"], cwd=tmp_path, stdin=end, stdout=end, stderr=end
    )
    os.close(end)
    try:
        asked = b""
        while b"Agent" not in asked:
            asked += os.read(terminal, 1000)
        os.write(terminal, b"mock\n")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert "kind: mock" in (tmp_path / "WORKFLOW.md").read_text()
    assert not (tmp_path / "agent.sh").exists()


def test_nothing_is_overwritten_without_force(tmp_path, capsys):
    (tmp_path / "issues.json").write_text("mine")
    said = ask(capsys, "init", str(tmp_path))
    assert said.code == 1
    assert "issues.json" in said.err and "--force" in said.err
    assert (tmp_path / "issues.json").read_text() == "mine"
    assert not (tmp_path / "WORKFLOW.md").exists()
    assert ask(capsys, "init", str(tmp_path), "--force").code == 0
    assert "TASK-1" in (tmp_path / "issues.json").read_text()


def test_force_replaces_a_link_instead_of_writing_through_it(tmp_path, capsys):
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "WORKFLOW.md").symlink_to(target)
    assert ask(capsys, "init", str(tmp_path / "here"), "--force").code == 0
    assert target.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_one_sentence(capsys):
    for directory in ("/proc/nowhere", "/proc"):
        said = ask(capsys, "init", directory)
        assert said.code == 1
        assert said.err.startswith(f"sortie: Nothing can be written into {directory}: no such file or directory. ")
        assert said.err.count("\n") == 1


def test_where_nobody_reads_all_of_it_is_there_or_nothing(tmp_path):
    """`sortie init | true`."""
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-m", "sortie", "init", "new"]
    done = subprocess.run(argv, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=30)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    written = {path.name for path in (tmp_path / "new").iterdir()}
    assert {"WORKFLOW.md", "issues.json", "agent.sh", ".gitignore"} <= written


@pytest.mark.parametrize("present", [None, "build/\n", "build/", "/workspaces/\n"])
def test_nothing_that_a_run_leaves_is_shown_to_git(tmp_path, capsys, present):
    """Store, logs, archive and workspaces are ignored; lines that were there stay."""
    ignore = tmp_path / ".gitignore"
    if present is not None:
        ignore.write_text(present)
    assert ask(capsys, "init", str(tmp_path), "--agent", "mock").code == 0
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    run = [sys.executable, "-m", "sortie", "run", "--until-idle"]
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, timeout=30).returncode == 0
    assert (tmp_path / "workspaces").is_dir()
    shown = subprocess.run([*git, "status", "--short", "-uall"], check=True, capture_output=True, text=True).stdout
    assert sorted(line.split()[1] for line in shown.splitlines()) == [".gitignore", "WORKFLOW.md", "issues.json"]
    lines = ignore.read_text().splitlines()
    assert len(lines) == len(set(lines))
    assert lines[: len((present or "").splitlines())] == (present or "").splitlines()


def test_a_gitignore_that_has_everything_is_left_as_it_is(tmp_path, capsys):
    assert ask(capsys, "init", str(tmp_path)).code == 0
    before = (tmp_path / ".gitignore").stat()
    said = ask(capsys, "init", str(tmp_path), "--force")
    assert ".gitignore" not in said.out
    assert (tmp_path / ".gitignore").stat().st_mtime_ns == before.st_mtime_ns


def test_a_gitignore_elsewhere_is_not_written_through_a_link(tmp_path, capsys):
    (tmp_path / "shared").write_text("mine\n")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/.gitignore").symlink_to(tmp_path / "shared")
    said = ask(capsys, "init", str(tmp_path / "here"))
    assert said.code == 0
    assert (tmp_path / "shared").read_text() == "mine\n"
    assert "/workspaces/" in said.out


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("name", ["WORKFLOW.md", "issues.json", "agent.sh", ".gitignore"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_is_refused_before_anything_is_written(tmp_path, capsys, make, name, force):
    make(tmp_path / name)
    said = ask(capsys, "init", str(tmp_path), "--agent", "command", *force)
    assert (said.code, said.err.startswith(f"sortie: {tmp_path / name} is no regular file.")) == (1, True), said.err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_only_what_was_meant_is_there_afterwards(tmp_path, capsys):
    ignore = tmp_path / ".gitignore"
    ignore.write_bytes(b"build/\r\n")
    ignore.chmod(0o640)
    assert ask(capsys, "init", str(tmp_path), "--agent", "command").code == 0
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == [".gitignore", "WORKFLOW.md", "agent.sh", "issues.json"]
    assert ignore.read_bytes().startswith(b"build/\r\n/.sortie.*\n")
    assert ignore.stat().st_mode & 0o777 == 0o640


# -- trackers on a server ---------------------------------------------------------------------------------------

SERVERS = {
    "github": ("GITHUB_TOKEN", ["--project", "octocat/hello"]),
    "jira": ("JIRA_API_TOKEN", ["--project", "NO", "--endpoint", "https://octo.atlassian.net"]),
}


@pytest.mark.parametrize("tracker", SERVERS)
def test_a_workflow_for_a_server_is_valid_once_its_variable_is_set(tracker, tmp_path, capsys, monkeypatch):
    variable, flags = SERVERS[tracker]
    monkeypatch.delenv(variable, raising=False)
    said = ask(capsys, "init", str(tmp_path), "--tracker", tracker, *flags)
    assert said.code == 0
    assert f"Set {variable} first: " in said.out and "Correct tracker." not in said.out
    assert not (tmp_path / "issues.json").exists()
    workflow = str(tmp_path / "WORKFLOW.md")
    (problem,) = ask(capsys, "validate", workflow, "--json").json()["errors"]
    assert f"${variable}" in problem["message"]
    monkeypatch.setenv(variable, "me@example.com:secret")
    assert ask(capsys, "validate", workflow, "--json").json() == {"valid": True, "errors": [], "warnings": []}


def test_what_is_written_for_a_server_is_what_was_asked_for(tmp_path, capsys):
    environ = {"JIRA_API_TOKEN": "me@example.com:secret", "GITHUB_TOKEN": "secret"}
    found = {}
    for tracker, (_, flags) in SERVERS.items():
        assert ask(capsys, "init", str(tmp_path / tracker), "--tracker", tracker, *flags).code == 0
        loaded = load(tmp_path / tracker / "WORKFLOW.md", environ=environ, kinds=kinds())
        found[tracker] = loaded.config.tracker
        assert "issue.description" in loaded.template.text and "issue.comments" in loaded.template.text
        assert "trusted_authors" in (tmp_path / tracker / "WORKFLOW.md").read_text()
    github, jira = found["github"], found["jira"]
    assert (github.project, github.endpoint, github.api_key) == ("octocat/hello", "", "secret")
    assert (github.active_states, github.in_progress_state) == (("todo", "in-progress"), "in-progress")
    assert (github.handoff_state, github.terminal_states) == ("review", ("done", "wontfix"))
    assert github.failed_states == ("wontfix",)
    assert (jira.project, jira.endpoint) == ("NO", "https://octo.atlassian.net")
    assert (jira.active_states, jira.in_progress_state) == (("To Do", "In Progress"), "In Progress")
    assert (jira.handoff_state, jira.terminal_states) == ("In Review", ("Done",))


@pytest.mark.parametrize("tracker", SERVERS)
def test_what_nobody_named_is_to_be_corrected(tracker, tmp_path, capsys):
    said = ask(capsys, "init", str(tmp_path), "--tracker", tracker)
    assert said.code == 0
    assert f"Correct tracker.project in {tmp_path / 'WORKFLOW.md'}." in said.out
    assert ("Correct tracker.endpoint" in said.out) == (tracker == "jira")


@pytest.mark.parametrize(("tracker", "project"), [("github", "owner/repo"), ("jira", "PROJ")])
def test_what_somebody_named_is_not_to_be_corrected(tracker, project, tmp_path, capsys):
    """Also where it is what stands there for those who name nothing."""
    flags = ["--project", project, "--endpoint", "https://octo.example.com"]
    said = ask(capsys, "init", str(tmp_path), "--tracker", tracker, *flags)
    assert (said.code, "Correct tracker." in said.out) == (0, False), said.out


def test_a_server_of_ones_own_is_written_down(tmp_path, capsys):
    flags = ["--project", "octocat/hello", "--endpoint", "https://github.example.com"]
    assert ask(capsys, "init", str(tmp_path), "--tracker", "github", *flags).code == 0
    config = load(tmp_path / "WORKFLOW.md", environ={"GITHUB_TOKEN": "x"}, kinds=kinds()).config
    assert config.tracker.endpoint == "https://github.example.com"


@pytest.mark.parametrize(
    "flags",
    [
        ["--tracker", "github", "--project", "hello"],
        ["--tracker", "github", "--project", 'a/b"\nfile: {path: /etc/passwd}'],
        ["--tracker", "jira", "--project", "proj"],
        ["--tracker", "jira", "--project", "PROJ", "--endpoint", "http://example.com"],
        ["--tracker", "jira", "--project", "PROJ", "--endpoint", "no address"],
        ["--project", "octocat/hello"],
    ],
)
def test_what_no_tracker_takes_is_refused_before_anything_is_written(flags, tmp_path, capsys):
    said = ask(capsys, "init", str(tmp_path / "new"), *flags)
    assert said.code == 2
    assert said.err.startswith("sortie: --") and said.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        (["github", "--project", "octo/parser"], "https://github.com/octo/parser"),
        (
            ["github", "--project", "octo/parser", "--endpoint", "https://ghe.example.com/api/v3"],
            "https://ghe.example.com/octo/parser",
        ),
        (
            ["github", "--project", "octo/parser", "--endpoint", "https://api.octo.ghe.com"],
            "https://octo.ghe.com/octo/parser",
        ),
        (["jira", "--project", "OCTO"], ""),
    ],
)
def test_an_agent_begins_with_the_code_where_the_tracker_tells_whose_it_is(flags, address, tmp_path, capsys):
    said = ask(capsys, "init", str(tmp_path), "--tracker", *flags)
    environ = {"GITHUB_TOKEN": "x", "JIRA_API_TOKEN": "a@example.com:x"}
    config = load(tmp_path / "WORKFLOW.md", environ=environ, kinds=kinds()).config
    if address:
        assert config.hooks.after_create == f"git clone --depth 1 {address}.git ."
        assert f"Agents begin with a clone of {address}:" in said.out
    else:
        assert not config.hooks.after_create
        assert "Agents begin in an empty directory" in said.out


def test_on_a_terminal_the_project_is_asked_for(tmp_path):
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sortie", "init", "--tracker", "jira", "--agent", "mock"],
        cwd=tmp_path,
        stdin=end,
        stdout=end,
        stderr=end,
    )
    os.close(end)
    try:
        for question, answer in ((b"Address", b"https://octo.atlassian.net\n"), (b"Key of the project", b"OCTO\n")):
            asked = b""
            while question not in asked:
                asked += os.read(terminal, 1000)
            os.write(terminal, answer)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    text = (tmp_path / "WORKFLOW.md").read_text()
    assert 'project: "OCTO"' in text and 'endpoint: "https://octo.atlassian.net"' in text
