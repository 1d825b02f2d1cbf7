"""A root with one workspace, and a place for archives."""

from __future__ import annotations

import pytest


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
