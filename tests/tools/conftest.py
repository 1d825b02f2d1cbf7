"""A project for a sidecar, and a sidecar on it."""

from __future__ import annotations

import pytest

from .scene import Project


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def sidecar(project):
    with project.start() as running:
        yield running
