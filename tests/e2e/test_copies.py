"""A copy of a project is another project: it leaves the original and its agents alone."""

from __future__ import annotations

import shutil

from sortie.core import events as ev

from .shell import FOR_EVER, says


def test_a_copy_of_a_project_leaves_the_agents_and_workspaces_of_the_original_alone(project, tmp_path):
    """Also one that was made while an agent was at work, and has its process and its directory on record."""
    project.add("1", f"{says('here')}; {FOR_EVER}")
    service = project.start()
    service.until(lambda: project.diary() == ["here"])
    service.until(lambda: project.events(ev.ProcessStarted, "1"))
    credentials = project.workspaces / "T-1" / ".sortie" / "mcp.json"
    assert credentials.exists()
    copy = tmp_path / "copy"
    shutil.copytree(project.root, copy, ignore_dangling_symlinks=True)
    (copy / "issues.json").write_text("[]")
    done = project.sortie("run", "--until-idle", "-w", str(copy))
    assert done.returncode in (0, 3), done.stderr
    assert "left behind" not in done.stderr
    assert len(project.living()) > 0
    assert credentials.exists()
    assert project.events(ev.RunEnded, "1") == []
    service.stop()
