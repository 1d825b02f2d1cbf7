"""Locks that name their holder, and are taken again when somebody removed the file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from sortie.errors import SortieError
from sortie.peers.state_file import locked

HOLDER = """
import sys, threading
from pathlib import Path
from sortie.peers.state_file import locked
sys.argv = ["/usr/bin/sortie", "worklog", "append", "--secret=hidden"]
with locked(Path({path!r}), 5):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "WORKLOG.md.lock"


@pytest.fixture
def holder(path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(path=str(path))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_after_its_patience_it_names_the_holder(path, holder):
    with pytest.raises(SortieError) as caught, locked(path, 0.05):
        pass
    assert f"Process {holder.pid} (sortie worklog append) has held {path} for 0.05 seconds" in caught.value.message
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("said", [b"", b"[]", b'{"pid": "x"}', b"[" * 5000, b"\xff", b'{"pid":1}'])
def test_a_lock_file_that_says_nonsense_names_nobody(path, holder, said):
    path.write_bytes(said)
    with pytest.raises(SortieError, match=r"^Another process has held"), locked(path, 0):
        pass


def test_what_a_lock_file_says_is_shown_harmlessly(path, holder):
    path.write_bytes(b'{"pid": 5, "command": "\\u001b[31mred\\n' + b"x" * 500 + b'"}')
    with pytest.raises(SortieError) as caught, locked(path, 0):
        pass
    assert re.match(r"Process 5 \(\\x1b\[31mred\\nx{50,}…\)", caught.value.message)


def test_a_dead_holder_is_no_obstacle(path, holder):
    holder.kill()
    with locked(path, 5):
        assert str(os.getpid()) in path.read_text()


def test_who_waits_for_a_removed_file_takes_the_one_that_is_there(path, holder):
    """Otherwise the one that waited and the next one would hold two different files."""
    taken = threading.Event()
    go_on = threading.Event()

    def wait() -> None:
        with locked(path, 30):
            taken.set()
            go_on.wait()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    while not is_open_here(path):
        pass
    path.unlink()
    assert holder.stdin is not None
    holder.stdin.close()
    holder.wait()
    assert taken.wait(30)
    with pytest.raises(SortieError, match=f"Process {os.getpid()}"), locked(path, 0.05):
        pass
    go_on.set()
    waiting.join()


def is_open_here(path: Path) -> bool:
    names = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            names.append(one.readlink())
    return path in names


def test_a_directory_that_is_not_there_is_an_error_that_says_so(tmp_path):
    with pytest.raises(SortieError, match="cannot be used: no such file"), locked(tmp_path / "none" / "lock", 0):
        pass
