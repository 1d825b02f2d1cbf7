"""A store, and a server that takes what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..e2e.conftest import project as project
from ..servers.scripted import ScriptedServer
from .scene import Scene, scene_in


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with scene_in(tmp_path) as made:
        yield made


@pytest.fixture
def sink() -> Iterator[ScriptedServer]:
    with ScriptedServer.running() as server:
        yield server
