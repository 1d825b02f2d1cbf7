"""A scene for each test."""

from __future__ import annotations

import pytest

from .scene import Scene, ask
from .worklog_scene import AGENT_MARKS, Checkout


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


@pytest.fixture
def say(scene, capsys):
    """Runs a command that takes `-w` on the scene, in this process."""

    def run(command, *arguments):
        return ask(capsys, command, *arguments, "-w", str(scene.workflow))

    return run


@pytest.fixture
def checkout(tmp_path, capsys, monkeypatch):
    for mark in AGENT_MARKS:
        monkeypatch.delenv(mark, raising=False)
    return Checkout(tmp_path, capsys)


@pytest.fixture
def log(checkout):
    checkout.done("init")
    return checkout
