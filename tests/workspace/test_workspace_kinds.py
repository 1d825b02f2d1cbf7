"""Shared checkouts, which are a person's, and task folders, which have an inbox and an outbox."""

import os
from pathlib import Path

import pytest

from sortie.errors import WorkspaceError
from sortie.protocol.tree_walk import go_on
from sortie.workspace.directory import make_task_folders, open_shared_checkout, open_workspace


def contents(path: Path) -> dict[str, bytes]:
    return {str(found.relative_to(path)): found.read_bytes() for found in path.rglob("*") if found.is_file()}


@pytest.fixture
def checkout(tmp_path):
    path = tmp_path / "checkout"
    (path / ".git").mkdir(parents=True)
    (path / "work").write_text("a person's")
    return path


def test_a_shared_checkout_is_opened_as_it_is(tmp_path, checkout):
    before = contents(tmp_path)
    with open_shared_checkout(checkout) as workspace:
        assert not workspace.created
        assert workspace.path == checkout.resolve()
        assert workspace.key == "checkout"
        assert workspace.inode == checkout.stat().st_ino
        assert not os.get_inheritable(workspace.fd)
        workspace.verify()
        workspace.mark_complete()
    assert contents(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == ["checkout"]


def test_a_note_beside_a_shared_checkout_is_not_ours_to_remove(tmp_path, checkout):
    (tmp_path / ".incomplete").mkdir()
    (tmp_path / ".incomplete/checkout").touch()
    with open_shared_checkout(checkout) as workspace:
        workspace.mark_complete()
    assert (tmp_path / ".incomplete/checkout").exists()


def test_a_link_to_a_shared_checkout_is_resolved_once(tmp_path, checkout):
    (tmp_path / "link").symlink_to(checkout)
    with open_shared_checkout(tmp_path / "link") as workspace:
        assert workspace.path == checkout.resolve()
        (tmp_path / "link").unlink()
        workspace.verify()


def test_another_directory_in_the_place_of_a_shared_checkout_is_noticed(checkout):
    with open_shared_checkout(checkout) as workspace:
        checkout.rename(checkout.with_name("moved"))
        checkout.mkdir()
        with pytest.raises(WorkspaceError, match="something else took its place"):
            workspace.verify()


@pytest.mark.parametrize("make", [None, Path.touch, os.mkfifo], ids=["nothing", "file", "FIFO"])
def test_a_shared_checkout_is_never_made(tmp_path, make):
    path = tmp_path / "checkout"
    if make:
        make(path)
    with pytest.raises(WorkspaceError, match=r"shared checkout .* cannot be opened"):
        open_shared_checkout(path)
    assert path.is_dir() is False


def test_a_task_folder_has_an_inbox_and_an_outbox(root):
    for _ in range(2):
        with open_workspace(root, "task", None, go_on) as workspace:
            make_task_folders(workspace)
            make_task_folders(workspace)
            assert sorted(os.listdir(workspace.fd)) == ["inbox", "outbox"]
            (workspace.path / "outbox").rmdir()
            (workspace.path / "inbox").rmdir()


@pytest.mark.parametrize("name", ["inbox", "outbox"])
def test_a_link_in_the_place_of_an_inbox_is_refused(root, tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    with open_workspace(root, "task", None, go_on) as workspace:
        (workspace.path / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(WorkspaceError, match=f"The {name} .* link refused"):
            make_task_folders(workspace)
