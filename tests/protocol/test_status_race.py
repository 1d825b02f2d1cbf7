"""Another process swaps links in and out while the status is read: no secret ever comes out, nothing is damaged."""

import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from sortie.protocol.safefiles import open_directory
from sortie.protocol.status_file import delete_status, read_status

SECRET = "AKIA-top-secret"
READS = 4000

SWAPPER = """
import os, sys
workspace, secret_directory, what = sys.argv[1:]
sortie = os.path.join(workspace, ".sortie")
name = sortie if what == "directory" else os.path.join(sortie, "status")
target = secret_directory if what == "directory" else os.path.join(secret_directory, "status")
aside = name + ".aside"
print("ready", flush=True)
while os.getppid() != 1:
    try:
        os.rename(name, aside)
        os.symlink(target, name)
        os.unlink(name)
        os.rename(aside, name)
    except FileNotFoundError:
        os.makedirs(sortie, exist_ok=True)
        with open(os.path.join(sortie, "status"), "w") as file:
            file.write("blocked\\n")
"""


@contextmanager
def swapping(workspace, secret, what):
    command = [sys.executable, "-c", SWAPPER, str(workspace), str(secret.parent), what]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "workspace"
    (path / ".sortie").mkdir(parents=True)
    (path / ".sortie/status").write_text("blocked\n")
    return path


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "elsewhere/status"
    path.parent.mkdir()
    path.write_text(f"{SECRET}\n")
    return path


@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_link_swapped_in_at_any_moment_never_shows_its_target(workspace, secret, what):
    """A2O-19: the open itself refuses links, so no swap between a check and a use can win."""
    kinds: set[str] = set()
    deadline = time.monotonic() + 30
    with swapping(workspace, secret, what) as process, open_directory(workspace) as descriptor:
        done = 0
        while done < READS or len(kinds) < 3:
            assert time.monotonic() < deadline, f"only {kinds} were seen"
            for place in (workspace, descriptor):
                status = read_status(place)
                assert SECRET not in repr(status)
                assert status.unrecognised is None
                kinds.add(status.token or status.problem[-20:])
            done += 1
        assert process.poll() is None
    assert any("refused" in kind for kind in kinds)
    assert "blocked" in kinds
    assert "" in kinds


@pytest.mark.parametrize("what", ["file", "directory"])
def test_the_clean_up_never_reaches_through_a_swapped_link(workspace, secret, what):
    """A2O-19: deletion goes through the same descriptors."""
    with swapping(workspace, secret, what) as process:
        for _ in range(READS):
            delete_status(workspace)
        assert process.poll() is None
    assert secret.read_text() == f"{SECRET}\n"
