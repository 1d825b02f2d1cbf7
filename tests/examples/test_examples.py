"""The examples do what their page says, run as a user would run them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def run_example(name: str, tmp_path: Path, **environ: str) -> tuple[int, Path]:
    project = tmp_path / name
    shutil.copytree(EXAMPLES / name, project)
    argv = [sys.executable, "-m", "sortie", "run", "--until-idle"]
    done = subprocess.run(argv, cwd=project, env={**os.environ, **environ}, timeout=50, check=False)
    return done.returncode, project


def states(project: Path) -> dict[str, str]:
    return {issue["identifier"]: issue["state"] for issue in json.loads((project / "issues.json").read_text())}


def git(*arguments: str, cwd: Path) -> str:
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_the_shell_agent_hands_one_issue_over_and_is_blocked_on_the_other(tmp_path):
    code, project = run_example("shell-agent", tmp_path)
    assert code == 3, "one issue ended parked"
    assert states(project) == {"SHELL-1": "In Review", "SHELL-2": "In Progress"}
    assert (project / "workspaces" / "SHELL-1" / "result.txt").exists()
    comments = json.loads((project / "issues.json").read_text())[1]["comments"]
    assert "needs an API key that is not here" in comments[-1]["body"]


def test_the_git_workspace_gives_each_issue_a_branch_with_its_work_committed(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    git("init", "--quiet", cwd=repository)
    git("commit", "--quiet", "--allow-empty", "-m", "start", cwd=repository)
    code, project = run_example("git-workspace", tmp_path, REPOSITORY=str(repository))
    assert code == 0
    for number in (1, 2):
        workspace = project / "workspaces" / f"GIT-{number}"
        assert git("branch", "--show-current", cwd=workspace).strip() == f"sortie/GIT-{number}"
        assert git("log", "-1", "--format=%s", cwd=workspace).strip() == f"Work on GIT-{number}"
        assert git("show", "HEAD:CHANGES", cwd=workspace).strip() == f"handled GIT-{number}"


@pytest.mark.parametrize("repository", [None, "", "/nowhere"])
def test_the_git_workspace_inside_a_repository_never_touches_that_repository(tmp_path, repository):
    """Without its variable it fails, and commits nothing of the operator's: there is no clone to commit to."""
    git("init", "--quiet", "--initial-branch=main", cwd=tmp_path)
    git("commit", "--quiet", "--allow-empty", "-m", "start", cwd=tmp_path)
    (tmp_path / "notes.txt").write_text("not for others\n")
    before = git("for-each-ref", cwd=tmp_path)
    environ = {} if repository is None else {"REPOSITORY": repository}
    code, project = run_example("git-workspace", tmp_path, SORTIE_AGENT_MAX_SESSIONS="1", **environ)
    assert code == 3, "both issues failed"
    assert git("for-each-ref", cwd=tmp_path) == before
    assert git("diff", "--cached", "--name-only", cwd=tmp_path) == ""
    assert git("branch", "--show-current", cwd=tmp_path).strip() == "main"
    assert states(project) == {"GIT-1": "To Do", "GIT-2": "To Do"}


def test_the_tool_of_the_team_counts_the_lines_of_the_agents_files(tmp_path):
    """EXT-15: loaded the way its entry point says."""
    package = EXAMPLES / "team-tool"
    points = tomllib.loads((package / "pyproject.toml").read_text())["project"]["entry-points"]["sortie.tools"]
    (tmp_path / "a.py").write_text("1\n2\n")
    (tmp_path / "b.txt").write_text("1\n")
    script = f"""
import json, pathlib
from sortie.tools import ToolContext
from sortie.tools.team import load_tools
(tool,), problems = load_tools({points!r})
context = ToolContext("1", "T-1", pathlib.Path("."), "r1", 0)
print(json.dumps([problems, tool.name, tool.run({{"suffix": ".py"}}, context)]))
"""
    environ = {**os.environ, "PYTHONPATH": str(package / "src")}
    argv = [sys.executable, "-c", script]
    answer = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, check=True, timeout=50)
    assert json.loads(answer.stdout) == [[], "line_count", {"files": 1, "lines": 2}]


def test_the_python_program_works_its_issues_off_and_reports(tmp_path):
    project = tmp_path / "program"
    shutil.copytree(EXAMPLES / "python-program", project)
    argv = [sys.executable, str(project / "work.py")]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["PY-1: handed over to In Review", "PY-2: handed over to In Review"]
    assert states(project) == {"PY-1": "In Review", "PY-2": "In Review"}
