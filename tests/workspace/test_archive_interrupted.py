"""Archives that do not come to an end: interrupted at any step, or overtaken by a change. Nothing is half done."""

import os
from functools import partial

import anyio
import pytest
from anyio import from_thread, to_thread

from sortie.errors import WorkspaceError
from sortie.workspace.archive import archive_and_remove
from sortie.workspace.place import open_workspace

from .test_workspace_archive import describe, make_dirty


@pytest.fixture
def root(tmp_path):
    return tmp_path / "workspaces"


@pytest.fixture
def archives(tmp_path):
    return tmp_path / "archives"


@pytest.fixture
def workspace(root):
    path = root / "A-1"
    path.mkdir(parents=True)
    return path


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
    steps = 0

    def check() -> None:
        nonlocal steps
        if archives.is_dir() and any(name.endswith(".gz") for name in os.listdir(archives)):
            steps += 1
            if steps == 6:
                raise Interrupted

    with pytest.raises(Interrupted):
        archive_and_remove(root, "A-1", archives, "A-1", check)
    assert 0 < len(os.listdir(workspace)) < 4
    with open_workspace(root, "A-1") as opened:
        assert opened.created
        assert os.listdir(opened.fd) == []


@pytest.mark.parametrize("size", [10, 1000, 300])
def test_a_file_that_changes_while_it_is_read_keeps_the_workspace(root, archives, workspace, size):
    """Longer, shorter, or only written again: the copy is not what is there."""
    (workspace / "file").write_bytes(bytes(300))
    steps = iter(["before the file", "in the file"])

    def check() -> None:
        if next(steps, "") == "in the file":
            (workspace / "file").write_bytes(bytes(size))
            os.utime(workspace / "file", (1, 1))

    with pytest.raises(WorkspaceError, match=r"It changed while it was read \(A-1/file\)"):
        archive_and_remove(root, "A-1", archives, "A-1", check)
    assert (workspace / "file").stat().st_size == size
    assert os.listdir(archives) == []
