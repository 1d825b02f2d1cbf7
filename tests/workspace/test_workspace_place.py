"""Workspaces: made once, contained, verified, and made anew when their creation did not finish."""

import os
import stat
import tarfile
from pathlib import Path

import pytest

from sortie.errors import WorkspaceError
from sortie.workspace.archive import claim_workspace
from sortie.workspace.keys import workspace_key
from sortie.workspace.place import NotOurs, Roots, open_workspace


@pytest.fixture
def root(tmp_path):
    return tmp_path / "deep/workspaces"


def make_complete(root: Path, identifier: str = "A-1") -> Path:
    with open_workspace(root, identifier) as workspace:
        workspace.mark_complete()
        return workspace.path


def nobodys(path: Path, inode: int) -> bool:
    return False


def test_a_new_workspace_is_a_direct_child_of_the_root(root):
    """A2O-01"""
    with open_workspace(root, "team/A 1") as workspace:
        assert workspace.created
        assert workspace.key == workspace_key("team/A 1")
        assert workspace.path == root.resolve() / workspace.key
        assert os.path.samestat(workspace.path.stat(), os.fstat(workspace.fd))
        assert not os.get_inheritable(workspace.fd)
    assert stat.S_IMODE(root.stat().st_mode) & 0o027 == 0


def test_a_complete_workspace_is_reused_with_its_content(root):
    path = make_complete(root)
    (path / "work").write_text("done")
    with open_workspace(root, "A-1") as workspace:
        assert not workspace.created
        assert workspace.path == path
    assert (path / "work").read_text() == "done"


def test_a_directory_that_is_not_ours_is_refused_and_kept(root):
    (root / "A-1").mkdir(parents=True)
    (root / "A-1/work").write_text("done")
    with pytest.raises(NotOurs, match=r"A-1 was not made by this store.*Move it away"):
        open_workspace(root, "A-1", nobodys)
    assert (root / "A-1/work").read_text() == "done"


def test_a_directory_is_told_by_its_path_and_its_inode(root):
    path = make_complete(root)
    asked: list[tuple[Path, int]] = []

    def is_ours(path: Path, inode: int) -> bool:
        asked.append((path, inode))
        return True

    with open_workspace(root, "A-1", is_ours) as workspace:
        assert asked == [(path, workspace.inode)] == [(path, path.stat().st_ino)]


def test_a_directory_that_is_not_ours_goes_into_the_archive_and_a_new_one_is_made(root, tmp_path):
    """A2O-02: nothing is lost, and what somebody else put there is not worked on."""
    (root / "A-1").mkdir(parents=True)
    (root / "A-1/work").write_text("done")
    workspace, archive = claim_workspace(root, "A-1", nobodys, tmp_path / "archives", lambda: None)
    with workspace:
        assert workspace.created
        assert os.listdir(workspace.fd) == []
    assert archive is not None
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["A-1", "A-1/work"]


def test_a_directory_that_is_not_ours_and_cannot_be_archived_is_not_used(root, tmp_path):
    (root / "A-1").mkdir(parents=True)
    (tmp_path / "archives").write_text("in the way")
    with pytest.raises(WorkspaceError, match="stays, because it could not be archived"):
        claim_workspace(root, "A-1", nobodys, tmp_path / "archives", lambda: None)


def test_a_workspace_whose_creation_did_not_finish_is_made_anew(root):
    """The orchestrator may die in the middle of `after_create`; the hook then runs again in an empty directory."""
    with open_workspace(root, "A-1") as workspace:
        (workspace.path / "half/cloned").mkdir(parents=True)
    for _ in range(2):
        with open_workspace(root, "A-1") as workspace:
            assert workspace.created
            assert os.listdir(workspace.path) == []
    make_complete(root)
    with open_workspace(root, "A-1") as workspace:
        assert not workspace.created


def test_a_workspace_is_made_anew_after_a_death_before_its_directory_existed(root):
    with open_workspace(root, "A-1") as workspace:
        workspace.path.rmdir()
    with open_workspace(root, "A-1") as workspace:
        assert workspace.created


def test_completeness_is_kept_for_each_workspace_alone(root):
    make_complete(root, "A-1")
    with open_workspace(root, "A-2") as unfinished:
        (unfinished.path / "file").write_text("")
    with open_workspace(root, "A-1") as one, open_workspace(root, "A-2") as two:
        assert (one.created, two.created) == (False, True)


def test_marking_twice_is_harmless(root):
    with open_workspace(root, "A-1") as workspace:
        workspace.mark_complete()
        workspace.mark_complete()


def test_a_removed_workspace_is_new_again(root):
    make_complete(root).rmdir()
    with open_workspace(root, "A-1") as workspace:
        assert workspace.created


def test_a_link_at_the_path_is_refused(root, tmp_path):
    """A2O-19, A2O-02: also when it leads to a perfectly good directory."""
    (tmp_path / "elsewhere").mkdir()
    root.mkdir(parents=True)
    (root / "A-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError, match=r"A-1 cannot be opened: Symbolic link refused.*Remove the link"):
        open_workspace(root, "A-1")


def test_a_file_at_the_path_is_refused_and_kept(root):
    root.mkdir(parents=True)
    (root / "A-1").write_text("precious")
    with pytest.raises(WorkspaceError, match=r"Not a directory but a regular file.*Move away"):
        open_workspace(root, "A-1")
    assert (root / "A-1").read_text() == "precious"


def test_a_link_in_the_place_of_the_notes_is_refused(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    root.mkdir(parents=True)
    (root / ".incomplete").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError, match="Symbolic link refused"):
        open_workspace(root, "A-1")
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_root_that_is_a_link_is_resolved_once(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with open_workspace(tmp_path / "link", "A-1") as workspace:
        assert workspace.path == tmp_path.resolve() / "real/A-1"
        workspace.verify()


def test_a_root_that_is_a_file_is_an_error_with_a_fix(tmp_path):
    (tmp_path / "root").write_text("")
    with pytest.raises(WorkspaceError, match="Move away what stands there"):
        open_workspace(tmp_path / "root", "A-1")


def test_a_root_that_cannot_be_written_is_an_error():
    with pytest.raises(WorkspaceError, match=r"/proc/sys/sortie/A-1 cannot be opened: "):
        open_workspace(Path("/proc/sys/sortie"), "A-1")


def replace_by_link(root: Path) -> None:
    root.rename(root.with_name("aside"))
    root.symlink_to("aside")


def replace_by_directory(root: Path) -> None:
    root.rename(root.with_name("aside"))
    root.mkdir()


@pytest.mark.parametrize(
    ("replace", "how"),
    [
        (replace_by_link, r"was replaced .* leads to \S*/aside now.*Put the directory back"),
        (replace_by_directory, r"was replaced .* leads to another directory now.*Put the directory back"),
        (Path.rmdir, "cannot be reached any more: No such file.*Put the directory back"),
    ],
)
def test_another_directory_in_place_of_the_root_is_noticed(root, replace, how):
    """A2O-19: also where the link leads to the very same directory."""
    roots = Roots()
    roots.verify(root)
    roots.verify(root)
    replace(root)
    with pytest.raises(WorkspaceError, match=how):
        roots.verify(root)


def test_a_root_that_is_a_link_from_the_beginning_may_stay_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    roots = Roots()
    roots.verify(tmp_path / "link")
    roots.verify(tmp_path / "link")


def test_verification_notices_a_link_in_place_of_the_root(root):
    """A2O-19: any component, though it may lead to the same directory."""
    with open_workspace(root, "A-1") as workspace:
        replace_by_link(root)
        with pytest.raises(WorkspaceError, match="a symbolic link on the way"):
            workspace.verify()


def swap_for_link(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to("aside")


def swap_for_other_directory(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.mkdir()


def swap_for_file(path: Path) -> None:
    path.rmdir()
    path.write_text("")


@pytest.mark.parametrize(
    ("swap", "how"),
    [
        (swap_for_link, "a symbolic link took its place"),
        (swap_for_other_directory, "something else took its place"),
        (swap_for_file, "something else took its place"),
        (Path.rmdir, "No such file or directory"),
    ],
)
def test_verification_notices_that_the_workspace_was_swapped(root, swap, how):
    """A2O-02: what is about to become a working directory is still the directory we opened."""
    with open_workspace(root, "A-1") as workspace:
        workspace.verify()
        swap(workspace.path)
        with pytest.raises(WorkspaceError, match=f"{how}.*Move away"):
            workspace.verify()


def test_closing_twice_is_harmless(root):
    workspace = open_workspace(root, "A-1")
    descriptor = workspace.fd
    workspace.close()
    workspace.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_opening_leaves_one_descriptor_behind_and_failing_none(root):
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    with open_workspace(root, "A-1") as workspace:
        assert count() == before + 1
        swap_for_link(workspace.path)
    with pytest.raises(WorkspaceError):
        open_workspace(root, "A-1")
    assert count() == before
