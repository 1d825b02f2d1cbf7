"""A workspace, a way to start children in it that never outlive the test, and a prepared process."""

from __future__ import annotations

import os
from contextlib import suppress

import anyio
import pytest

from sortie.process.child import start
from sortie.process.identity import RUN_MARK, STORE_MARK
from sortie.process.orphans import orphan_tracker
from sortie.process.process_table import inherited_children
from sortie.process.spawn import prepare


@pytest.fixture(autouse=True)
def prepared():
    prepare()


@pytest.fixture(autouse=True)
def strangers():
    """What other tests in this process left behind, or keep for later ones, is not what is measured here."""
    living = []
    for pid in inherited_children() or ():
        with suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                living.append(pid)
    for pid in living:
        orphan_tracker.spare(pid)
    yield
    for pid in living:
        orphan_tracker.unspare(pid)


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
async def launch(workspace):
    """`await launch("echo hello")` starts a shell script in the workspace; a list is started as it is."""
    children = []

    async def launch(program, *, run_id="run-1", directory=workspace, env=None, **options):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        marks = {"PATH": os.environ["PATH"], STORE_MARK: "store-1", RUN_MARK: run_id, **(env or {})}
        argv = ["sh", "-c", program] if isinstance(program, str) else program
        try:
            child = await start(argv, cwd_fd=fd, env=marks, run_id=run_id, workspace=directory, **options)
        finally:
            os.close(fd)
        children.append(child)
        return child

    yield launch
    with anyio.CancelScope(shield=True):
        for child in children:
            await child.end(grace=0)
