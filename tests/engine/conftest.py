"""A scene for each test."""

from __future__ import annotations

import pytest

from .tracker_scene import Scene


@pytest.fixture
def tracked(tmp_path):
    return lambda *issues: Scene(tmp_path, *issues)
