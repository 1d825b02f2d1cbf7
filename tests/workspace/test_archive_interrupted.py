"""Archives that do not come to an end: interrupted at any step, or overtaken by a change. Nothing is half done."""

import os
import threading
from functools import partial

import anyio
import pytest
from anyio import from_thread, to_thread

from sortie.errors import WorkspaceError
from sortie.protocol.tree_walk import go_on
from sortie.workspace.directory import open_workspace
from sortie.workspace.removal import archive_workspace, remove_archived

from .test_workspace_archive import archive_and_remove, describe, make_dirty


class Interrupted(Exception):
    pass


def interrupt_after(steps: int):
    left = iter(range(steps))

    def check() -> None:
        if next(left, None) is None:
            raise Interrupted

    return check


@pytest.mark.parametrize("steps", [0, 5, 12])
def test_an_interrupted_archive_leaves_the_workspace_and_no_trace(root, archives, workspace, steps):
    make_dirty(workspace)
    (workspace / "big").write_bytes(bytes(10 << 20))
    before = describe(workspace)
    with pytest.raises(Interrupted):
        archive_and_remove(root, "A-1", archives, "A-1", interrupt_after(steps))
    assert describe(workspace) == before
    assert os.listdir(archives) == []


async def test_a_cancelled_archive_ends_at_its_next_step(root, archives, workspace):
    """Nobody waits for the rest of it: a drain is not delayed."""
    for number in range(20):
        (workspace / f"file{number}").touch()
    steps: list[int] = []

    def wait_at_the_third_step() -> None:
        steps.append(1)
        while len(steps) == 3:
            from_thread.check_cancelled()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            work = partial(archive_and_remove, root, "A-1", archives, "A-1", wait_at_the_third_step)
            tasks.start_soon(to_thread.run_sync, work)
            while len(steps) < 3:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    assert len(steps) == 3
    assert len(os.listdir(workspace)) == 20
    assert os.listdir(archives) == []


def test_the_rest_of_an_interrupted_removal_is_never_used_as_a_workspace(root, archives, workspace):
    """All of it is in the archive; the next run starts with a new workspace."""
    for number in range(4):
        (workspace / f"d{number}").mkdir()
    assert archive_workspace(root, "A-1", archives, "A-1", go_on)
    with pytest.raises(Interrupted):
        remove_archived(root, interrupt_after(5))
    (rest,) = root.glob(".A-1~*")
    assert 0 < len(os.listdir(rest)) < 4
    with open_workspace(root, "A-1", None, go_on) as opened:
        assert opened.created
        assert os.listdir(opened.fd) == []
    assert remove_archived(root, go_on) == []
    assert not rest.exists() and len(os.listdir(archives)) == 1


@pytest.mark.parametrize("size", [10, 1000, 300])
def test_a_file_that_changes_while_it_is_read_keeps_the_workspace(root, archives, workspace, size):
    """Longer, shorter, or only written again: the copy is not what is there."""
    (workspace / "file").write_bytes(bytes(300))
    steps = iter(["before the workspace", "before the file", "in the file"])

    def check() -> None:
        if next(steps, "") == "in the file":
            (workspace / "file").write_bytes(bytes(size))
            os.utime(workspace / "file", (1, 1))

    with pytest.raises(WorkspaceError, match=r"It changed while it was read \(A-1/file\)"):
        archive_and_remove(root, "A-1", archives, "A-1", check)
    assert (workspace / "file").stat().st_size == size
    assert os.listdir(archives) == []


@pytest.mark.parametrize("change", ["new", "written", "moved in", "linked", "gone", "in the top directory"])
def test_a_change_behind_the_archive_keeps_the_workspace(root, archives, workspace, tmp_path, change):
    """Nothing is deleted without a copy, also where the directory had been archived before the change."""
    (workspace / "a").mkdir()
    (workspace / "a/notes").write_text("old")
    (workspace / "z").write_text("last")
    (tmp_path / "other/deep").mkdir(parents=True)
    (tmp_path / "other/deep/file").write_text("old, too")
    changes = {
        "new": lambda: (workspace / "a/new").write_text("an hour of work"),
        "written": lambda: (workspace / "a/notes").write_text("new"),
        "moved in": lambda: (tmp_path / "other").rename(workspace / "a/other"),
        "linked": lambda: (workspace / "a/other").hardlink_to(tmp_path / "other/deep/file"),
        "gone": lambda: (workspace / "a/notes").unlink(),
        "in the top directory": lambda: (workspace / "new").write_text("an hour of work"),
    }
    with pytest.raises(WorkspaceError, match=r"stays, .*It changed while it was archived"):
        archive_workspace(root, "A-1", archives, "A-1", go_on, changes[change])
    assert os.listdir(archives) == [] and os.listdir(root) == ["A-1"]
    archive_and_remove(root, "A-1", archives, "A-1")
    assert os.listdir(root) == []


def test_whoever_does_not_confirm_keeps_the_workspace(root, archives, workspace):
    make_dirty(workspace)
    before = describe(workspace)
    with pytest.raises(Interrupted):
        archive_workspace(root, "A-1", archives, "A-1", go_on, interrupt_after(0))
    assert describe(workspace) == before
    assert os.listdir(archives) == [] and os.listdir(root) == ["A-1"]


@pytest.mark.parametrize("changed", [False, True])
def test_whoever_removes_what_is_archived_waits_until_that_is_certain(root, archives, workspace, changed):
    """Between its move and the last look at it a workspace may still go back, and its archive be thrown away."""
    for number in range(4):
        (workspace / f"file{number}").write_text("an hour of work")
    remover = threading.Thread(target=remove_archived, args=(root, go_on))

    def check() -> None:
        moved = [*root.glob(".A-1~*")]
        if moved and not remover.ident:
            for file in moved[0].iterdir() if changed else ():
                file.write_text("a late change")
            remover.start()
            remover.join(0.2)  # it must not come to its end before we do

    if changed:
        with pytest.raises(WorkspaceError, match="It changed while it was archived"):
            archive_workspace(root, "A-1", archives, "A-1", check)
    else:
        assert archive_workspace(root, "A-1", archives, "A-1", check)
    remover.join(30)
    assert len(os.listdir(archives)) == (0 if changed else 1)
    assert workspace.exists() == changed
    assert list(root.glob(".A-1~*")) == []
