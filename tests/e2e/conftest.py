"""A project for each test, and the certainty that nothing of it runs on afterwards."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .hostile_plan import HostilePlan
from .plan_project import PlanProject
from .project import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "project"
    root.mkdir()
    made = Project(root)
    yield made
    made.clean_up()


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[PlanProject]:
    root = tmp_path / "plan"
    root.mkdir()
    made = PlanProject(root)
    yield made
    made.clean_up()


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[HostilePlan]:
    made = HostilePlan(tmp_path / "plan")
    yield made
    made.clean_up()


@pytest.fixture
def unprivileged() -> Iterator[Project]:
    """A project whose service does not run as root, because nothing is forbidden to root."""
    root = Path(tempfile.mkdtemp(prefix="sortie-e2e-"))
    root.chmod(0o755)
    made = Project(root, unprivileged=True)
    if subprocess.run([*made.prefix, sys.executable, "-c", "import sortie"], capture_output=True).returncode != 0:
        shutil.rmtree(root)
        pytest.skip(f"NOT TESTED: a user without privileges cannot use {sys.executable} and this checkout")
    yield made
    made.clean_up()
    shutil.rmtree(root)
