"""A plan that ran, once for all tests; each gets a copy of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from .results_scene import PlanScene


@pytest.fixture(scope="session")
def finished_plan(tmp_path_factory) -> PlanScene:
    scene = PlanScene(tmp_path_factory.mktemp("finished")).write()
    ended = scene.run("run")
    assert ended.returncode == 3, ended.stderr
    return scene


@pytest.fixture
def ran(finished_plan: PlanScene, tmp_path: Path) -> PlanScene:
    return finished_plan.copy_to(tmp_path / "plan")
