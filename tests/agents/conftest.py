"""A session order for a workspace, a reporter that keeps all it is told, and stand-ins for programs."""

from __future__ import annotations

import os
import shlex
import sys

import pytest

from sortie.agents.agent import SessionOrder
from sortie.process.identity import RUN_MARK, STORE_MARK
from sortie.process.spawn import prepare
from sortie.testing.fakes import Recorder

from .playing import TRANSCRIPTS


@pytest.fixture(autouse=True)
def prepared():
    prepare()


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def stand_in(tmp_path):
    """A command that runs this Python program; `T` is the folder of the recordings."""

    def stand_in(program: str) -> str:
        path = tmp_path / "stand_in.py"
        path.write_text(f"import os, pathlib, signal, sys, time\nT = {str(TRANSCRIPTS)!r}\n{program}")
        return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"

    return stand_in


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "workspaces" / "DEMO-1"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def make_order(workspace):
    fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)

    def make_order(**changes):
        environment = {"PATH": os.environ["PATH"], STORE_MARK: "store-1", RUN_MARK: "run-1"}
        order = {
            "run_id": "run-1",
            "issue_id": "1",
            "identifier": "DEMO-1",
            "attempt": 2,
            "workspace": workspace,
            "workspace_fd": fd,
            "environment": environment,
        }
        return SessionOrder(**{**order, **changes})

    yield make_order
    os.close(fd)
