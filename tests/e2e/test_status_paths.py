"""What an agent may put in the place of the status file: links, pipes, giants, a moving target. None wins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

import pytest

from .project import Project
from .shell import BLOCKED, says

OUTSIDE = 'mkdir -p "$SORTIE_WORKFLOW_DIR/outside/.sortie" && echo blocked > "$SORTIE_WORKFLOW_DIR/outside/status"'

NOT_A_FILE = {
    "link to a file": f'{OUTSIDE}; mkdir -p .sortie; ln -s "$SORTIE_WORKFLOW_DIR/outside/status" .sortie/status',
    "link inside the workspace": "mkdir -p .sortie; echo blocked > word; ln -s ../word .sortie/status",
    "link that leads nowhere": "mkdir -p .sortie; ln -s nowhere .sortie/status",
    "link to itself": "mkdir -p .sortie; ln -s status .sortie/status",
    "folder is a link": f'{OUTSIDE}; rm -rf .sortie; ln -s "$SORTIE_WORKFLOW_DIR/outside" .sortie',
    "folder is a link inside": "mkdir real; echo blocked > real/status; rm -rf .sortie; ln -s real .sortie",
    "hard link": "mkdir -p .sortie; echo blocked > word; ln word .sortie/status",
    "FIFO": "mkdir -p .sortie; mkfifo .sortie/status",
    "socket": f"mkdir -p .sortie; {sys.executable} -c "
    "'import socket; socket.socket(socket.AF_UNIX).bind(\".sortie/status\")'",
    "directory": "mkdir -p .sortie/status",
    "folder is a file": "rm -rf .sortie; echo blocked > .sortie",
    "folder is a FIFO": "rm -rf .sortie; mkfifo .sortie",
    "device": "mkdir -p .sortie; ln -s /dev/zero .sortie/status",
}


def add_all(project: Project, scripts: Iterable[str]) -> None:
    for number, script in enumerate(scripts):
        project.add(str(number), script)


def test_whatever_is_not_a_plain_file_is_a_read_error_and_counts_as_absent(project):
    """A2O-13 A2O-19 A2O-21: links at every level, pipes, sockets and directories are refused by the open itself."""
    add_all(project, NOT_A_FILE.values())
    project.run()
    for number, case in enumerate(NOT_A_FILE):
        run, settled = project.only_run(str(number)), project.settled(str(number))
        assert (run.status, run.soft_stop, run.turns) == ("succeeded", "", 1), case
        assert settled.retry and settled.retry.kind == "continuation", case
        assert "the status file could not be read and is ignored" in project.notes(str(number)), case


def test_a_file_of_any_size_costs_nothing(project):
    """A2O-21: ten gigabytes, with and without the word in front, are read in a few KiB."""
    project.add("1", f"{BLOCKED}; truncate -s 10G .sortie/status")
    project.add("2", "mkdir -p .sortie; truncate -s 10G .sortie/status")
    project.run()
    assert project.only_run("1").soft_stop == "blocked"
    assert project.only_run("2").soft_stop == ""
    assert "unknown value" in project.notes("2")


def test_a_file_that_may_not_be_read_is_a_warning(unprivileged):
    """A2O-13: permission denied on the file or on its folder never fails the run."""
    unprivileged.add("1", f"{BLOCKED}; chmod 000 .sortie/status")
    unprivileged.add("2", f"{BLOCKED}; chmod 000 .sortie")
    unprivileged.run()
    for issue_id in ("1", "2"):
        assert unprivileged.only_run(issue_id).status == "succeeded"
        assert unprivileged.only_run(issue_id).soft_stop == ""
        assert "Permission denied" in unprivileged.notes(issue_id)
        assert unprivileged.settled(issue_id).retry.kind == "continuation"


@pytest.mark.parametrize("place", [".sortie/status", ".sortie"])
def test_the_clean_up_leaves_links_and_what_they_lead_to(project, place):
    """A2O-19: a link left by an earlier run is not followed, not removed, and warned of."""
    target = project.root / "precious"
    target.mkdir()
    (target / "status").write_text("a stranger's file")
    link = project.workspace("1") / place
    leads_to = target / "status" if place.endswith("status") else target
    project.workflow({"hooks": {"after_create": f"mkdir -p $(dirname {place}); ln -s {leads_to} {place}"}})
    project.add("1", "true")
    project.run()
    assert (target / "status").read_text() == "a stranger's file"
    assert link.is_symlink()
    assert "the old status file was not deleted" in project.notes("1")


def test_a_deletion_that_fails_is_for_debugging_only(project):
    """A2O-20: the run goes on, and the reason is logged at debug."""
    project.workflow({"hooks": {"after_create": "mkdir -p .sortie/status/inner"}})
    project.add("1", f"rm -r .sortie/status; {BLOCKED}")
    project.run()
    assert project.only_run("1").soft_stop == "blocked"
    assert "could not be deleted" in project.notes("1", "debug")
    assert "deleted" not in project.notes("1", "warning")


SWAPPER = """
import os, sys
name = sys.argv[1] + "/status"
while True:
    with open(name + ".new", "w") as file:
        file.write("going on")
    os.rename(name + ".new", name)
    os.symlink("../word", name + ".new")
    os.rename(name + ".new", name)
"""


def test_a_link_swapped_in_while_it_is_read_never_wins(project):
    """A2O-19: a program that keeps exchanging the file for a link to `blocked` cannot get that read."""
    project.add("1", says("turn"))
    project.workflow({"agent": {"max_turns": 60}, "hooks": {"after_create": "mkdir .sortie; echo blocked > word"}})
    service = project.start(until_idle=True)
    service.until(lambda: (project.workspace("1") / "word").exists())
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(project.workspace("1") / ".sortie")])
    try:
        service.wait()
    finally:
        swapper.kill()
        swapper.wait()
    run = project.only_run("1")
    assert (run.status, run.soft_stop, run.turns) == ("succeeded", "", 60)
    assert "Symbolic link refused" in project.notes("1")
    assert "unknown value" in project.notes("1")


def test_the_workspace_folder_itself_cannot_be_a_link(project):
    """A2O-19 A2O-02: a link at the workspace's own name goes into the archive, and no agent starts behind it."""
    elsewhere = project.root / "elsewhere"
    (elsewhere / ".sortie").mkdir(parents=True)
    (elsewhere / ".sortie" / "status").write_text("blocked\n")
    project.workspaces.mkdir()
    os.symlink(elsewhere, project.workspace("1"))
    project.add("1", says("started in $(pwd -P)"))
    project.run()
    assert project.diary() == [f"started in {project.workspace('1')}"]
    assert not project.workspace("1").is_symlink()
    assert "stood in the place of it and is in the archive now" in project.notes("1")
    assert project.only_run("1").soft_stop == ""
    assert (elsewhere / ".sortie" / "status").exists()
