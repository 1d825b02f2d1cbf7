"""Removing the workspace of an issue that is done: nothing outside it, nothing without a copy, no waiting."""

from __future__ import annotations

import os
import signal

import pytest

from sortie.core import events as ev

from .project import Project
from .shell import BLOCKED
from .test_full_disk import can_mount

MOUNTS = {
    "1": "mkdir inner && mount --bind {outside} inner",
    "2": "mkdir inner && mount -t tmpfs none inner && touch inner/precious",
    "3": "touch inner && mount --bind {outside}/precious inner",
}


@pytest.mark.skipif(not can_mount(), reason="NOT TESTED: mounts in a workspace, because they need CAP_SYS_ADMIN")
def test_a_mount_inside_a_workspace_keeps_it_and_what_is_behind(project):
    """Clean-up stops at a mount point, names it in a warning, and has removed nothing."""
    outside = project.root / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    project.prefix = ["unshare", "-m", "--propagation", "private"]
    for issue_id, mount in MOUNTS.items():
        project.add(issue_id, f"{mount.format(outside=outside)} || exit 1; echo work > result; {BLOCKED}")
    service = project.start()
    service.until(lambda: len(project.parked()) == 3)
    project.write_issues([{**issue, "state": "Done"} for issue in project.issues()])
    service.until(lambda: project.notes().count("the workspace was kept") == 3)
    assert service.stop() == 0
    for issue_id in MOUNTS:
        assert f"A file system is mounted there (T-{issue_id}/inner). Unmount it" in project.notes(issue_id)
        assert (project.workspace(issue_id) / "result").read_text() == "work\n"
    assert (outside / "precious").read_text() == "precious"
    assert os.listdir(project.db_path.with_suffix(".archive")) == []
    # The mounts went with the service that saw them; now nothing is in the way.
    assert project.run() == 0
    assert {event.issue_id for event in project.events(ev.WorkspaceGone)} == set(MOUNTS)
    assert (outside / "precious").read_text() == "precious"


def test_a_file_that_cannot_be_archived_keeps_the_workspace(unprivileged):
    """Half an archive is none; the warning names the file, once."""
    unprivileged.add("1", f"echo work > result; chmod 000 result; {BLOCKED}")
    unprivileged.run()
    unprivileged.edit("1", state="Done")
    service = unprivileged.start()
    service.until(lambda: "Permission denied (T-1/result)" in unprivileged.notes("1"))
    assert service.stop() == 0
    assert (unprivileged.workspace("1") / "result").exists()
    assert unprivileged.events(ev.WorkspaceGone) == []
    (unprivileged.workspace("1") / "result").chmod(0o600)
    unprivileged.run()
    assert not unprivileged.workspace("1").exists()


def archives(project: Project) -> list[str]:
    directory = project.db_path.with_suffix(".archive")
    return os.listdir(directory) if directory.is_dir() else []


def test_a_drain_does_not_wait_for_an_archive(project):
    """The archive in progress goes, the workspace stays for the next start."""
    project.add("1", f"head -c 300M /dev/zero > big; {BLOCKED}")
    project.run()
    project.edit("1", state="Done")
    service = project.start()
    service.until(lambda: any(name.endswith(".tmp") for name in archives(project)))
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert archives(project) == []
    assert (project.workspace("1") / "big").stat().st_size == 300 << 20
    assert project.events(ev.WorkspaceGone) == []
