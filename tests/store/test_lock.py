"""One owner for each store, and a name to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sortie.errors import StoreError, StoreLocked, WorkspaceError
from sortie.store import Store
from sortie.store.lock import ROOT_HOLDER, held, holder_of, lock_path, root_held, root_holder_of

from .sample import output_of, start_python

# Opens the store, starts a process of its own, says that process's number, and waits.
HOLDS = """
import subprocess, sys
from pathlib import Path
import anyio
from sortie.store import Store

async def main(path):
    async with Store.open(path, holder={"workflow": "there/WORKFLOW.md"}):
        child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        print(child.pid, flush=True)
        sys.stdin.read()

anyio.run(main, Path(sys.argv[1]))
"""


@contextmanager
def another_holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    with start_python(HOLDS, path) as process:
        grandchild = int(output_of(process).readline())
        try:
            yield process
        finally:
            process.kill()
            process.wait(10)
            os.kill(grandchild, signal.SIGKILL)
            with suppress(ChildProcessError):  # it is ours where we are the subreaper of what we start
                os.waitpid(grandchild, 0)


async def test_a_second_orchestrator_is_refused_with_the_name_of_the_first(path):
    with another_holder(path) as first:
        with pytest.raises(StoreLocked) as caught:
            async with Store.open(path, holder={}):
                raise AssertionError("opened")
        message = str(caught.value)
        assert message.startswith(f"Another sortie (pid {first.pid}, host {socket.gethostname()}, since 20"), (
            message
        )
        assert f"is using {path}." in message
        assert caught.value.fix


async def test_the_holder_is_known_while_it_lives_and_nobody_afterwards(path):
    assert holder_of(path) is None
    with another_holder(path) as first:
        holder = holder_of(path)
        assert holder is not None
        assert (holder["pid"], holder["workflow"]) == (first.pid, "there/WORKFLOW.md")
        assert set(holder) == {"pid", "host", "since", "workflow"}

        first.kill()
        first.wait(10)
        # Its own child lives on and must not have inherited the lock.
        assert holder_of(path) is None
        async with Store.open(path, holder={}):
            assert (holder_of(path) or {}).get("pid") == os.getpid()
    assert holder_of(path) is None


# Holds the lock, and has a child that has not become another program yet; `kill -9` hits the parent alone.
DIES = """
import os, signal, sys, time
from pathlib import Path
from sortie.store.lock import held

with held(Path(sys.argv[1]), {}):
    if os.fork() == 0:
        os.close(1)
        time.sleep(1)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_start_is_not_refused_for_what_a_killed_holder_was_just_starting(path):
    with start_python(DIES, path) as killed:
        assert output_of(killed).read() == ""
        assert killed.wait(10) == -signal.SIGKILL
        assert (holder_of(path) or {}).get("pid") == killed.pid
        with held(path, {}):
            assert (holder_of(path) or {}).get("pid") == os.getpid()


async def test_the_same_process_cannot_open_a_store_twice(path):
    async with Store.open(path, holder={}):
        with pytest.raises(StoreLocked):
            async with Store.open(path, holder={}):
                raise AssertionError("opened")
        assert holder_of(path) is not None
    async with Store.open(path, holder={}):
        pass


async def test_another_name_for_the_same_file_is_no_way_around(path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    async with Store.open(path, holder={}):
        assert holder_of(link) is not None
        with pytest.raises(StoreLocked):
            async with Store.open(link, holder={}):
                raise AssertionError("opened")


@pytest.mark.parametrize("left_behind", ["", "{", "[]", json.dumps({"pid": 1})])
def test_what_a_dead_holder_left_in_the_file_does_not_matter(path, left_behind):
    lock_path(path).write_text(left_behind)
    assert holder_of(path) is None
    with held(path, {}):
        assert (holder_of(path) or {}).get("pid") == os.getpid()


def test_a_holder_that_has_not_written_its_name_yet_still_holds(path):
    with held(path, {}):
        lock_path(path).write_text("")
        assert holder_of(path) == {}
        with pytest.raises(StoreLocked, match=r"^Another sortie is using"), held(path, {}):
            raise AssertionError("taken")


STRANGE = {
    "fifo": os.mkfifo,
    "link": lambda name: name.symlink_to("victim"),
    "directory": Path.mkdir,
}


@pytest.mark.parametrize("strange", STRANGE)
def test_what_is_not_a_file_in_the_place_of_the_lock_is_refused_without_waiting(path, strange):
    path.with_name("victim").write_text("untouched")
    STRANGE[strange](lock_path(path))
    with pytest.raises(StoreError, match=r"\.lock is not a regular file") as caught, held(path, {}):
        raise AssertionError("taken")
    assert caught.value.fix
    with pytest.raises(StoreError, match="not a regular file"):
        holder_of(path)
    assert path.with_name("victim").read_text() == "untouched"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "workspaces"


def refusal(root: Path) -> WorkspaceError:
    with pytest.raises(WorkspaceError) as caught, root_held(root, {}):
        raise AssertionError("taken")
    return caught.value


def test_a_root_has_one_holder_whose_name_is_told(root):
    with root_held(root, {"workflow": "there/WORKFLOW.md", "store": "there/.sortie.db"}):
        error = refusal(root)
        assert f"pid {os.getpid()}" in error.message
        assert "workflow there/WORKFLOW.md, store there/.sortie.db" in error.message
        assert error.message.endswith(f"works in {root}.")
        assert "workspace.root of its own" in error.fix
        assert (root_holder_of(root) or {})["store"] == "there/.sortie.db"
    assert root_holder_of(root) is None
    with root_held(root, {}):
        pass


def test_a_root_is_the_same_by_whatever_path_it_is_reached(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    with root_held(root, {}):
        refusal(tmp_path / "link")
        refusal(Path(os.path.relpath(root)))
        refusal(root / ".." / root.name)


def test_roots_inside_one_another_do_not_collide(root):
    with root_held(root, {}), root_held(root / "T-1" / "workspaces", {}), root_held(root.parent, {}):
        pass


@pytest.mark.parametrize("planted", ["nothing", "nonsense", "hard link", *STRANGE])
def test_whoever_destroys_the_name_in_a_root_does_not_free_it(root, planted):
    """Agents can write there: the lock stays held, nothing waits, and the next holder touches no other file."""
    victim = root.parent / "victim"
    victim.write_text("untouched")
    name = root / ROOT_HOLDER
    with root_held(root, {}):
        name.unlink()
        match planted:
            case "nonsense":
                name.write_text("[" * 5000)
            case "hard link":
                name.hardlink_to(victim)
            case "nothing":
                pass
            case _:
                STRANGE[planted](name)
        assert refusal(root).message == f"Another sortie works in {root}."
        assert root_holder_of(root) == {}
    with root_held(root, {}):
        assert root_holder_of(root) is not None
    assert victim.read_text() == "untouched"


async def test_a_store_refused_for_its_root_is_not_even_made(path, root):
    with root_held(root, {}), pytest.raises(WorkspaceError):
        async with Store.open(path, holder={}, root=root):
            raise AssertionError("opened")
    assert not path.exists()
    assert holder_of(path) is None
