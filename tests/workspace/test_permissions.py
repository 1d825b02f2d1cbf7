"""What file modes do to us, seen by a user without privileges: root is stopped by none of them."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from sortie.errors import WorkspaceError
from sortie.protocol.safefiles import open_directory
from sortie.protocol.status_file import delete_status, read_status
from sortie.protocol.tree_walk import go_on, remove_tree
from sortie.workspace.directory import open_workspace

from .test_workspace_archive import archive_and_remove

NOBODY = 65534


@pytest.fixture
def home():
    """A directory of the user as whom the test runs."""
    path = Path(tempfile.mkdtemp(prefix="sortie-test-"))
    was_root = os.geteuid() == 0
    if was_root:
        os.chown(path, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        yield path
    finally:
        if was_root:
            os.seteuid(0)
        shutil.rmtree(path)


def make_tree(top: Path) -> None:
    for name, mode in (("read-only", 0o555), ("closed", 0o000)):
        (top / name / "inner").mkdir(parents=True)
        (top / name / "file").write_text("content")
        (top / name).chmod(mode)
    (top / "unreadable").write_text("content")
    (top / "unreadable").chmod(0)


@pytest.mark.parametrize("closed", [".sortie/status", ".sortie", "."])
def test_a_status_that_may_not_be_read_is_a_problem(home, closed):
    """A2O-13: missing permission is a read error and no exception."""
    (home / ".sortie").mkdir()
    (home / ".sortie/status").write_text("blocked\n")
    (home / closed).chmod(0)
    assert "Permission denied" in read_status(home).problem
    (home / closed).chmod(0o700)


def test_a_status_that_may_not_be_deleted_is_left(home):
    """A2O-20"""
    (home / ".sortie").mkdir()
    (home / ".sortie/status").write_text("blocked\n")
    (home / ".sortie").chmod(0o500)
    assert delete_status(home) == "failed: Permission denied: status"
    (home / ".sortie").chmod(0o700)


def test_directories_that_forbid_changes_are_removed(home):
    (home / "tree").mkdir()
    make_tree(home / "tree")
    (home / "tree").chmod(0o555)
    with open_directory(home) as place:
        remove_tree(place, "tree")
    assert os.listdir(home) == []


@pytest.mark.parametrize("closed", ["unreadable", "closed"])
def test_what_may_not_be_read_keeps_the_workspace_and_is_named(home, closed):
    """Half an archive is none: what is not in it would be lost."""
    (home / "root/K").mkdir(parents=True)
    make_tree(home / "root/K")
    other = {"unreadable": "closed", "closed": "unreadable"}[closed]
    (home / "root/K" / other).chmod(0o700)
    with pytest.raises(WorkspaceError, match=rf"stays, .*: Permission denied \(K/{closed}\)\. Give this user"):
        archive_and_remove(home / "root", "K", home / "archives", "K")
    assert os.listdir(home / "archives") == []
    assert (home / "root/K/read-only/file").read_text() == "content"


def test_a_workspace_that_may_not_be_made_names_the_path_and_the_fix(home):
    (home / "root").mkdir(mode=0o500)
    with pytest.raises(WorkspaceError) as caught:
        open_workspace(home / "root", "A-1", None, go_on)
    assert f"{home}/root/A-1" in str(caught.value)
    assert "Permission denied" in str(caught.value)
    assert "Give this user access" in str(caught.value)


def test_a_workspace_that_may_not_be_archived_is_kept(home):
    (home / "root/K").mkdir(parents=True)
    (home / "root/K/file").write_text("content")
    (home / "archives").mkdir(mode=0o500)
    with pytest.raises(WorkspaceError, match="stays, because it could not be archived"):
        archive_and_remove(home / "root", "K", home / "archives", "K")
    assert (home / "root/K/file").read_text() == "content"


def test_a_workspace_whose_root_may_not_be_changed_stays_and_is_not_archived(home):
    """It could not be removed after that, and would be archived again with every try."""
    (home / "root/K").mkdir(parents=True)
    (home / "root").chmod(0o500)
    with pytest.raises(WorkspaceError, match=r"stays, because .*: Permission denied"):
        archive_and_remove(home / "root", "K", home / "archives", "K")
    (home / "root").chmod(0o700)
    assert (home / "root/K").is_dir() and not (home / "archives").exists()
