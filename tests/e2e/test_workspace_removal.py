"""Removing the workspace of an issue that is done: nothing outside it, nothing without a copy, no waiting."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sortie.core import events as ev

from .project import Project
from .shell import BLOCKED, FOR_EVER, says
from .test_full_disk import can_mount

PARKED = 3
SESSIONS = {"budget": {"per_issue": {"sessions": 3}}}
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


def test_a_run_and_a_removal_exclude_each_other(project):
    """An issue that is moved back while its workspace is being removed keeps it, and works on in it."""
    gate = project.root / "gate"
    project.workflow({"hooks": {"before_remove": f"{says('removing $$')}; {FOR_EVER}"}, **SESSIONS})
    project.add("1", f"echo work >> result; {BLOCKED}")
    project.run()
    project.edit("1", state="Done")
    service = project.start()
    hook = service.until(project.diary)[0].removeprefix("removing ")
    waits = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    (project.root / "agents/1.sh").write_text(f"echo work >> result; {says('at work')}; {waits}; {BLOCKED}")
    project.edit("1", state="To Do", title="Go on")
    service.until(lambda: "at work" in project.diary())
    assert not Path("/proc", hook).exists()
    gate.touch()
    service.until(lambda: len(project.runs("1")) == 2)
    assert (project.workspace("1") / "result").read_text() == "work\nwork\n"
    assert service.stop() == 0
    assert archives(project) == [] and project.events(ev.WorkspaceGone) == []


def test_an_issue_that_is_no_longer_done_after_the_hook_keeps_its_workspace(project):
    """No run wants it, but a person may: the tracker is asked again before anything is removed."""
    gate = project.root / "gate"
    waits = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    project.workflow({"hooks": {"before_remove": f"{says('removing')}; {waits}"}})
    project.add("1", f"echo work > result; {BLOCKED}")
    project.run()
    project.edit("1", state="Done")
    service = project.start(until_idle=True)
    service.until(lambda: "removing" in project.diary())
    project.edit("1", state="Later")
    gate.touch()
    assert service.wait() == 0
    assert (project.workspace("1") / "result").exists()
    assert archives(project) == [] and project.events(ev.WorkspaceGone) == []


def test_a_folder_named_like_an_archive_or_a_log_ends_no_service(project):
    """It stays, and the workspace of an issue that is done goes as ever."""
    planted = [project.root / name for name in (".sortie.archive/x-20200101T000000Z.tar.gz", ".sortie.logs/x.log")]
    for path in planted:
        path.mkdir(parents=True)
        os.utime(path, (0, 0))
    project.add("1", BLOCKED)
    assert project.run() == PARKED
    project.edit("1", state="Done")
    assert project.run() == 0
    assert not project.workspace("1").exists() and all(path.is_dir() for path in planted)


def test_clean_up_that_fails_as_a_whole_is_a_note(unprivileged):
    """Said once; agents work on."""
    directory = unprivileged.db_path.with_suffix(".archive")
    directory.mkdir(mode=0)
    unprivileged.own(directory)
    unprivileged.add("1", BLOCKED)
    assert unprivileged.run() == PARKED
    assert list(unprivileged.parked()) == ["1"]
    assert unprivileged.notes().count("clean-up failed") == 1


def test_what_is_archived_and_cannot_be_removed_is_archived_once(unprivileged):
    """Its hook runs once, each service says once what is left and why, and the place of the workspace is free."""
    project = unprivileged
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: files of another user in a workspace, because they need root")
    project.workflow({"hooks": {"before_remove": says("removing")}})
    project.add("1", f"mkdir build; echo work > build/out; {BLOCKED}")
    project.run()
    for path in (project.workspace("1") / "build", project.workspace("1") / "build/out"):
        os.chown(path, 0, 0)
    project.edit("1", state="Done")
    for number in (1, 2):
        assert project.run() == 0
        assert len(archives(project)) == 1
        assert project.notes().count("what is left of a workspace was kept") == number
    assert project.diary() == ["removing"]
    (gone,) = project.events(ev.WorkspaceGone)
    assert gone.archive.endswith(archives(project)[0])
    assert not project.workspace("1").exists()


def test_before_remove_runs_once_however_often_the_archive_fails(unprivileged):
    unprivileged.workflow({"hooks": {"before_remove": says("removing")}, **SESSIONS})
    unprivileged.add("1", f"echo work > result; chmod 000 result; {BLOCKED}")
    for issue_id in "23":
        unprivileged.add(issue_id, BLOCKED, state="Later")
    unprivileged.run()
    unprivileged.edit("1", state="Done")
    service = unprivileged.start()
    service.until(lambda: "Permission denied (T-1/result)" in unprivileged.notes("1"))
    for issue_id in "23":  # each of them makes clean-up look again
        unprivileged.edit(issue_id, state="To Do")
        service.until(lambda which=issue_id: which in unprivileged.parked())
        unprivileged.edit(issue_id, state="Done")
        service.until(lambda which=issue_id: unprivileged.events(ev.WorkspaceGone, which))
    assert service.stop() == 0
    assert unprivileged.notes("1").count("the workspace was kept") == 1
    assert unprivileged.diary().count("removing") == 3


def test_only_what_is_below_the_root_of_this_service_is_removed(project):
    """The directory of an earlier root may be another service's by now."""
    project.workflow({"workspace": {"root": "shared"}})
    project.add("1", BLOCKED)
    project.run()
    project.workflow({"workspace": {"root": "own"}})
    project.edit("1", state="Done")
    assert project.run() == 0
    assert (project.root / "shared/T-1").is_dir() and archives(project) == []
    assert "is not below" in project.notes("1") and "Remove it by hand" in project.notes("1")


def test_another_directory_in_place_of_the_workspace_is_not_removed(project):
    project.add("1", BLOCKED)
    project.run()
    place = project.workspace("1")
    place.rename(place.with_name("aside"))
    place.mkdir()
    (place / "work").touch()
    project.edit("1", state="Done")
    assert project.run() == 0
    assert (place / "work").exists() and archives(project) == []
    assert "was not made by this store, or something else took its place" in project.notes("1")
