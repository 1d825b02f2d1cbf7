"""The examples for coding agents run as they stand: with the real program, under its usual name on PATH."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests import npm

from .scene import ROOT

pytestmark = npm.TIME_TO_INSTALL


def test_the_example_hands_its_issues_over(scene):
    example = ROOT / "examples" / scene.recipe.kind
    for name in ("WORKFLOW.md", "issues.json"):
        shutil.copy(example / name, scene.project.root / name)
    programs = scene.home / "bin"
    programs.mkdir()
    (programs / _usual_name(scene.recipe.kind)).symlink_to(scene.program)
    scene.project.environment["PATH"] = f"{programs}:{scene.project.environment['PATH']}"
    assert scene.run() == 0, scene.project.output()
    assert {issue["state"] for issue in scene.project.issues()} == {"In Review"}
    scene.nobody_left()


def _usual_name(kind: str) -> str:
    from sortie.plugins import load_agent

    command: str = load_agent(kind).program.command  # type: ignore[attr-defined]
    return Path(command.split()[0]).name
