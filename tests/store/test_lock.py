"""One owner for each store, and a name to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sortie.errors import StoreLocked
from sortie.store import Store
from sortie.store.lock import held, holder_of, lock_path

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
