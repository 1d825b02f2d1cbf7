"""Workspaces: made once, contained, verified, and made anew when their creation did not finish."""

import os
import sqlite3
import stat
import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sortie.errors import WorkspaceError
from sortie.protocol.tree_walk import go_on
from sortie.workspace.directory import Known, NotOurs, Root, Workspace, inode_of, workspace_key
from sortie.workspace.directory import open_workspace as open_known
from sortie.workspace.removal import claim_workspace


@pytest.fixture
def root(tmp_path):
    return tmp_path / "deep/workspaces"


def open_workspace(root: Path, identifier: str) -> Workspace:
    """As the one that knows whatever directory is there, and that no agent worked in it."""
    return open_known(root, identifier, Known(0, used=False), go_on)


def make_complete(root: Path, identifier: str = "A-1") -> Path:
    with open_workspace(root, identifier) as workspace:
        workspace.mark_complete()
        return workspace.path


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
        open_known(root, "A-1", None, go_on)
    assert (root / "A-1/work").read_text() == "done"


def test_a_directory_is_told_by_its_inode(root):
    path = make_complete(root)
    (path / "work").write_text("done")
    with open_known(root, "A-1", Known(path.stat().st_ino, used=False), go_on) as workspace:
        assert not workspace.created
    with pytest.raises(NotOurs):
        open_known(root, "A-1", Known(path.stat().st_ino + 1, used=False), go_on)


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_a_note_that_somebody_left_costs_no_work(root, make):
    """Where an agent has worked in it, creation had come to an end, whatever stands among our notes."""
    path = make_complete(root)
    (path / "work").write_text("days of it")
    make(root / ".incomplete/A-1")
    with open_known(root, "A-1", Known(path.stat().st_ino, used=True), go_on) as workspace:
        assert not workspace.created
    assert (path / "work").read_text() == "days of it"
    assert os.listdir(root / ".incomplete") == []


def test_an_unknown_directory_with_a_note_is_archived_before_it_goes(root, tmp_path):
    (root / "A-1").mkdir(parents=True)
    (root / "A-1/work").write_text("done")
    (root / ".incomplete").mkdir()
    (root / ".incomplete/A-1").touch()
    workspace, moved = claim_workspace(root, "A-1", None, tmp_path / "archives", go_on)
    with workspace:
        assert workspace.created
    assert list(moved) == ["A-1"]


def test_an_empty_directory_of_nobody_needs_no_archive(root, tmp_path):
    """A death just after its making leaves one; its hook has not run."""
    (root / "A-1").mkdir(parents=True)
    workspace, moved = claim_workspace(root, "A-1", None, tmp_path / "archives", go_on)
    with workspace:
        assert workspace.created
    assert moved == {}


def put_file(path: Path) -> None:
    path.write_text("precious")


def put_link(path: Path) -> None:
    path.symlink_to("/nowhere")


@pytest.mark.parametrize("put", [put_file, put_link, os.mkfifo])
@pytest.mark.parametrize("name", ["A-1", ".incomplete"])
def test_what_stands_in_the_way_goes_into_the_archive(root, tmp_path, put, name):
    """A2O-02: no run fails because of it, and nothing behind a link is touched."""
    root.mkdir(parents=True)
    put(root / name)
    workspace, moved = claim_workspace(root, "A-1", None, tmp_path / "archives", go_on)
    with workspace:
        assert workspace.created
    assert list(moved) == [name]
    with tarfile.open(moved[name]) as tar:
        assert tar.getnames() == [f"{name}.not-archived.txt" if put is os.mkfifo else name]
    assert sorted(os.listdir(root)) == [".incomplete", "A-1"]


def test_a_directory_that_is_not_ours_goes_into_the_archive_and_a_new_one_is_made(root, tmp_path):
    """A2O-02: nothing is lost, and what somebody else put there is not worked on."""
    (root / "A-1").mkdir(parents=True)
    (root / "A-1/work").write_text("done")
    workspace, moved = claim_workspace(root, "A-1", None, tmp_path / "archives", go_on)
    with workspace:
        assert workspace.created
        assert os.listdir(workspace.fd) == []
    with tarfile.open(moved["A-1"]) as tar:
        assert tar.getnames() == ["A-1", "A-1/work"]


@pytest.mark.parametrize("in_the_way", [False, True])
def test_workspaces_are_made_at_the_same_time(tmp_path, in_the_way):
    """The first runs of a service share the notes that one of them has to make."""

    def make(order: tuple[Path, int]) -> list[str]:
        root, number = order
        workspace, _ = claim_workspace(root, f"A-{number}", None, tmp_path / "archives", go_on)
        with workspace:
            return os.listdir(root / ".incomplete")

    roots = [tmp_path / f"root{number}" for number in range(20)]
    for root in roots:
        root.mkdir()
        if in_the_way:
            (root / ".incomplete").touch()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, [(root, number) for root in roots for number in range(8)]))
    for root in roots:
        assert sorted(os.listdir(root / ".incomplete")) == [f"A-{number}" for number in range(8)]


def test_a_directory_that_is_not_ours_and_cannot_be_archived_is_not_used(root, tmp_path):
    (root / "A-1/work").mkdir(parents=True)
    (tmp_path / "archives").write_text("in the way")
    with pytest.raises(WorkspaceError, match="stays, because it could not be archived"):
        claim_workspace(root, "A-1", None, tmp_path / "archives", go_on)


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
    with pytest.raises(NotOurs, match="A-1 was not made by this store"):
        open_workspace(root, "A-1")


def test_a_file_at_the_path_is_refused_and_kept(root):
    root.mkdir(parents=True)
    (root / "A-1").write_text("precious")
    with pytest.raises(NotOurs, match="A-1 was not made by this store"):
        open_workspace(root, "A-1")
    assert (root / "A-1").read_text() == "precious"


def test_a_link_in_the_place_of_the_notes_is_refused(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    root.mkdir(parents=True)
    (root / ".incomplete").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotOurs, match="incomplete was not made by this store"):
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
    root.mkdir(parents=True)
    seen = Root(root)
    seen.verify()
    replace(root)
    with pytest.raises(WorkspaceError, match=how):
        seen.verify()


def test_a_root_that_is_a_link_from_the_beginning_may_stay_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    root = Root(tmp_path / "link")
    root.verify()
    assert root.path == tmp_path.resolve() / "real"


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


def test_without_a_hook_a_new_workspace_is_complete_at_once(root):
    """Nothing has to be done in it, so nothing has to be noted and no disk waited for."""
    with open_known(root, "A-1", None, go_on, has_hook=False) as workspace:
        assert workspace.created
        known = Known(workspace.inode, used=False)
        (workspace.path / "work").write_text("begun")
    assert os.listdir(root) == ["A-1"]
    with open_known(root, "A-1", known, go_on) as workspace:
        assert not workspace.created
        assert os.listdir(workspace.fd) == ["work"]


def test_what_a_hook_did_not_finish_is_made_anew_though_there_is_no_hook_any_more(root):
    with open_workspace(root, "A-1") as workspace:
        (workspace.path / "half").touch()
    with open_known(root, "A-1", Known(0, used=False), go_on, has_hook=False) as workspace:
        assert workspace.created
        assert os.listdir(workspace.fd) == []
        known = Known(workspace.inode, used=False)
    with open_known(root, "A-1", known, go_on) as workspace:
        assert not workspace.created


@pytest.mark.parametrize("number", [1, 2**63 - 1, 2**63 + 1, 2**64 - 1])
def test_a_directory_is_known_by_its_number_also_where_no_database_counts_so_far(number):
    """Shares in the network and of virtual machines have such numbers."""

    def numbered(inode: int) -> os.stat_result:
        return os.stat_result((stat.S_IFDIR, inode, *[0] * 8))

    with closing(sqlite3.connect(":memory:")) as db:
        (recorded,) = db.execute("SELECT ?", (inode_of(numbered(number)),)).fetchone()
    known = Known(recorded, used=True)
    assert known.fits(numbered(number))
    assert not known.fits(numbered(number - 1))
