"""File systems mounted inside a workspace: nothing behind a mount point is archived, changed or removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MOUNTS = {
    "a bind mount of the same file system": "mkdir {w}/inner; mount --bind {outside} {w}/inner",
    "a file system of its own": "mkdir {w}/inner; mount -t tmpfs none {w}/inner; echo x > {w}/inner/precious",
    "a bind mount of one file": "touch {w}/inner; mount --bind {outside}/precious {w}/inner",
    "the directory mounted onto itself": "mkdir {w}/inner; mount --bind {w}/inner {w}/inner; echo x > {w}/inner/x",
    "a closed directory": "mkdir {w}/inner; mount --bind {outside} {w}/inner; chmod 500 {outside}",
}

# In this process, which has mounts of its own, remove the workspace and say what is left.
PROGRAM = """
import json, os, sys
from pathlib import Path
from sortie.errors import WorkspaceError
from sortie.protocol.safefiles import open_directory
from sortie.protocol.tree_walk import remove_tree
from sortie.workspace.removal import archive_workspace, remove_archived
root, how = Path(sys.argv[1]), sys.argv[2]
try:
    if how == "archive":
        archive_workspace(root / "workspaces", "A-1", root / "archives", "A-1", lambda: None)
        assert not remove_archived(root / "workspaces", lambda: None)
    else:
        with open_directory(root / "workspaces") as place:
            remove_tree(place, "A-1")
    said = ""
except (OSError, WorkspaceError) as error:
    said = str(error)
print(json.dumps([said, sorted(os.listdir(root / "outside")), oct((root / "outside").stat().st_mode)]))
"""


def can_mount() -> bool:
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs small /mnt"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif("not can_mount()", reason="NOT TESTED: mounts, because they need CAP_SYS_ADMIN")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "workspaces/A-1/deep").mkdir(parents=True)
    (tmp_path / "workspaces/A-1/file").write_text("work")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").write_text("precious")
    return tmp_path


def with_mount(place: Path, mount: str, how: str, where: str) -> Any:
    script = mount.format(w=place / "workspaces" / where, outside=place / "outside")
    command = ["unshare", "-m", "--propagation", "private", "sh", "-ec", f'{script}\nexec "$@"', "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-c", PROGRAM, str(place), how], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("mount", MOUNTS.values(), ids=MOUNTS)
def test_a_mount_point_keeps_the_workspace_and_is_named(place, mount):
    said, left, _ = with_mount(place, mount, "archive", "A-1/deep")
    assert "stays, because it could not be archived" in said
    assert "A file system is mounted there (A-1/deep/inner). Unmount it" in said
    assert left == ["precious"]
    assert (place / "workspaces/A-1/file").read_text() == "work"
    assert os.listdir(place / "archives") == []


@pytest.mark.parametrize("mount", MOUNTS.values(), ids=MOUNTS)
def test_removal_alone_stops_at_a_mount_point(place, mount):
    said, left, mode = with_mount(place, mount, "remove", "A-1/deep")
    assert "A-1/deep/inner" in said
    assert left == ["precious"]
    assert (place / "outside/precious").read_text() == "precious"
    assert mode == ("0o40500" if "chmod" in mount else mode)


def test_a_workspace_that_is_a_mount_point_itself_stays(place):
    mount = "mount --bind {outside} {w}"
    said, left, _ = with_mount(place, mount, "archive", "A-1")
    assert "A file system is mounted there (A-1)" in said
    assert left == ["precious"]


def test_a_root_that_is_a_file_system_of_its_own_is_no_obstacle(place):
    mount = "mount --bind {outside} {w}; mkdir {w}/A-1; echo work > {w}/A-1/file"
    said, left, _ = with_mount(place, mount, "archive", "")
    assert said == ""
    assert "A-1" not in left
    (archive,) = os.listdir(place / "archives")
    assert archive.startswith("A-1-")
