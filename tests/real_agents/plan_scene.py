"""Plans with real agent programs: a directory for a plan, the fake model, and no network but loopback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.e2e.plan_project import PlanProject

from .network import LoopbackWorld
from .programs import need
from .recipes import RECIPES, Recipe
from .scene import KEY, PATIENCE, Model

# How each program speaks to its model.
WIRES = {"claude-code": "anthropic", "codex": "responses"}


class PlanScene:
    """Agents by the names of their recipes, each with the script that its model plays."""

    def __init__(self, directory: Path, world: LoopbackWorld, scripts: dict[str, list[dict[str, Any]]]) -> None:
        self._recipes = [RECIPES[name] for name in scripts]
        self.programs = {recipe.kind: need(recipe.program) for recipe in self._recipes}
        self.model = Model(world, directory, {WIRES[name]: script for name, script in scripts.items()})
        self.home = directory / "home"
        (self.home / "tmp").mkdir(parents=True)
        (directory / "project").mkdir()
        self.project = PlanProject(directory / "project")
        self.project.prefix = world.prefix
        self.project.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "DIARY": str(self.project.diary_path),
        }
        for recipe in self._recipes:
            self._prepare(recipe)

    def _prepare(self, recipe: Recipe) -> None:
        for name, value in recipe.environment.items():
            self.project.environment[name] = self._filled(value)
        for name, content in recipe.home.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._filled(content))

    def _filled(self, text: str) -> str:
        return text.replace("{model}", self.model.url).replace("{key}", KEY)

    def close(self) -> None:
        self.project.clean_up()
        self.model.close()

    def agent(self, name: str) -> dict[str, Any]:
        """The `agent` of a task."""
        return {"kind": name, "command": str(self.programs[name]), "env": ["DIARY"]}

    def run(self) -> int:
        """The plan to its end."""
        return self.project.start().wait(PATIENCE)

    def tasks(self) -> dict[str, dict[str, Any]]:
        told = json.loads(self.project.sortie("status", "--json").stdout)
        return {task["task"]: task for task in told["tasks"]}

    def requests(self, name: str) -> list[dict[str, Any]]:
        """What the model of this agent was asked, as far as a script answered it."""
        return [request for request in self.model.steps() if request["wire"] == WIRES[name]]


def gate(directory: Path) -> tuple[dict[str, Any], Path, Path]:
    """A step that says that it has begun and waits; the two files are that word and the leave to go on."""
    begun, leave = directory / "begun", directory / "leave"
    return {"shell": f"touch {begun}; until [ -e {leave} ]; do sleep 0.1; done"}, begun, leave
