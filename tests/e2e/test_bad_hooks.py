"""Hooks that fail, hang or never stop printing: each of the four has its own consequence."""

from __future__ import annotations

import subprocess
import tarfile
from typing import Any

import pytest

from sortie.core import events as ev

from .project import Project
from .shell import BLOCKED, FOR_EVER, says

BAD = {
    "fails": ("echo no luck; exit 9", "exit code 9"),
    "hangs": (FOR_EVER, "did not end within"),
    "prints without end": ("yes line", "did not end within"),
    "hangs with a daemon": (f"setsid sh -c '{FOR_EVER}' & {FOR_EVER}", "did not end within"),
}


bad = pytest.mark.parametrize(("script", "says_why"), BAD.values(), ids=BAD.keys())


def workflow(project: Project, **hooks: Any) -> None:
    project.workflow({"hooks": {"timeout_ms": 800, **hooks}, "budget": {"per_issue": {"sessions": 2}}})


@bad
def test_after_create_fails_the_run_and_the_workspace_is_made_anew(project, script, says_why):
    """A half-made workspace is never used: the next run starts from an empty directory."""
    tried = project.root / "tried"
    second = 'ls -A >> "$DIARY"; touch made; exit 0'
    workflow(project, after_create=f"if [ -e {tried} ]; then {second}; fi; touch {tried} half-made; {script}")
    project.add("1", BLOCKED)
    project.run()
    first, second = project.runs("1")
    assert (first.status, first.turns) == ("failed", 0)
    assert "after_create" in first.error
    assert says_why in first.error
    assert second.soft_stop == "blocked"
    assert project.diary() == []
    assert (project.workspace("1") / "made").exists()
    assert project.living() == []


@bad
def test_before_run_fails_the_run_before_any_turn(project, script, says_why):
    """No agent starts, and the issue is tried again."""
    workflow(project, before_run=script, after_run=says("after_run"))
    project.add("1", says("agent"))
    project.run()
    assert "agent" not in project.diary()
    assert project.diary() == ["after_run"] * 2
    for run in project.runs("1"):
        assert (run.status, run.turns) == ("failed", 0)
        assert "before_run" in run.error
        assert says_why in run.error
    assert project.living() == []


@bad
def test_after_run_changes_no_verdict(project, script, says_why):
    """Its failure is a warning."""
    workflow(project, after_run=script)
    project.add("1", BLOCKED)
    project.run()
    assert project.only_run("1").soft_stop == "blocked"
    assert "after_run failed" in project.notes("1")
    assert says_why in project.notes("1")
    assert project.living() == []


@bad
def test_before_remove_does_not_stop_the_removal_and_the_archive_has_everything(project, script, says_why):
    """The workspace of an issue that is done is archived, then removed, whatever its hook does."""
    workflow(project, before_remove=f"echo late > late; {script}")
    project.add("1", f"echo work > result; mkdir -p deep/er; {BLOCKED}")
    project.run()
    project.edit("1", state="Done")
    project.run()
    assert not project.workspace("1").exists()
    (gone,) = project.events(ev.WorkspaceGone)
    with tarfile.open(gone.archive) as archive:
        names = archive.getnames()
        assert {"T-1/result", "T-1/deep/er", "T-1/late", "T-1/.sortie/status"} <= set(names)
    assert "before_remove failed" in project.notes("1")
    assert says_why in project.notes("1")
    assert project.living() == []


def test_hooks_run_in_their_order_with_the_issue_in_their_environment(project):
    """after_create, before_run, agent, after_run, and before_remove at the end."""
    names = ("after_create", "before_run", "after_run", "before_remove")
    workflow(project, **{name: says(f"{name} $SORTIE_ISSUE_IDENTIFIER $(pwd -P)") for name in names})
    project.add("1", f"{says('agent')}; {BLOCKED}")
    project.run()
    project.edit("1", state="Done")
    project.run()
    place = f"T-1 {project.workspace('1')}"
    expected = [
        f"after_create {place}",
        f"before_run {place}",
        "agent",
        f"after_run {place}",
        f"before_remove {place}",
    ]
    assert project.diary() == expected


def test_what_hooks_print_is_in_the_log_of_the_run(project):
    """People find out why a hook failed."""
    workflow(project, before_run="echo the disk is on fire; exit 1")
    project.add("1")
    project.run()
    assert "before_run: the disk is on fire" in project.run_log()
    assert "before_run: the disk is on fire" in project.sortie("logs", "T-1").stdout


def test_git_never_finds_the_repository_around_the_workspaces(project):
    """No agent and no hook reaches the operator's repository by asking git from a workspace without one."""
    subprocess.run(["git", "init", "--quiet"], cwd=project.root, check=True)
    asks = 'git rev-parse --show-toplevel >> "$DIARY" 2>&1 || echo "{} found none" >> "$DIARY"'
    names = ("after_create", "before_run", "after_run", "before_remove")
    workflow(project, timeout_ms=20_000, **{name: asks.format(name) for name in names})
    project.add("1", f"{asks.format('agent')}; {BLOCKED}")
    project.run()
    project.edit("1", state="Done")
    project.run()
    assert [line for line in project.diary() if "found none" in line] == [
        f"{name} found none" for name in ("after_create", "before_run", "agent", "after_run", "before_remove")
    ]
    assert str(project.root) not in project.diary()


def test_git_still_finds_the_repository_of_the_workspace(project):
    """From its folders too; and what the operator keeps git out of stays so."""
    workflow(project, timeout_ms=20_000, after_create="git init --quiet; mkdir inner")
    project.add("1", f'cd inner; git rev-parse --show-toplevel >> "$DIARY"; {says("$GIT_CEILING_DIRECTORIES")}')
    project.run(GIT_CEILING_DIRECTORIES="/one:/two")
    root = project.workspaces.resolve()
    assert project.diary()[:2] == [f"{root}/T-1", f"{root}:/one:/two"]
