"""A real agent program on a project: git workspace, file tracker, the fake model, and no network but loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.processes import wait_for
from tests.e2e.project import Project, Service, merged

from .network import LoopbackWorld
from .programs import need
from .recipes import Recipe

ROOT = Path(__file__).parents[2]
KEY = "sk-fake-0123456789abcdef"
PATIENCE = 150.0

PROMPT = "Work on {{ issue.identifier }}: {{ issue.title }}\n\n{{ issue.description }}"
# What the model does where a prompt holds no script, as that of the doctor.
PROBED = [{"mcp": "sortie_status", "args": {}}, {"text": "ready"}]
REVIEW = "mkdir -p .sortie && printf 'needs-human-review\\nreason: please look\\n' > .sortie/status"


class Model:
    """The fake model as a process of its own, inside the loopback world. `script` is for prompts that have none."""

    def __init__(self, world: LoopbackWorld, directory: Path, script: Any = PROBED) -> None:
        self._log = directory / "requests.jsonl"
        port_file = directory / "port"
        self._popen = subprocess.Popen(
            [
                *world.prefix,
                *(sys.executable, "-m", "tests.fake_model", "--key", KEY),
                *("--port-file", str(port_file), "--log", str(self._log)),
                *("--script", json.dumps(script)),
            ],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        wait_for(port_file.exists)
        self.url = f"http://127.0.0.1:{port_file.read_text()}"

    def requests(self) -> list[dict[str, Any]]:
        """Those that carried a prompt of ours or were refused, oldest first."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]

    def steps(self) -> list[dict[str, Any]]:
        """The requests that were answered with a step of a script."""
        return [request for request in self.requests() if request["step"] >= 0]

    def close(self) -> None:
        self._popen.terminate()
        self._popen.wait()


class Scene:
    """One agent at work. `agent` changes settings of the workflow's agent section."""

    def __init__(self, recipe: Recipe, directory: Path, world: LoopbackWorld) -> None:
        self.recipe = recipe
        self.program = need(recipe.program)
        self.model = Model(world, directory)
        self.home = directory / "home"
        self.home.mkdir()
        (self.home / "tmp").mkdir()
        (directory / "project").mkdir()
        self.project = Project(directory / "project")
        self.project.prefix = world.prefix
        self._put_home(KEY)
        self._origin = self._make_origin(directory / "origin")
        self.workflow()

    def close(self) -> None:
        self.project.clean_up()
        self.model.close()

    def workflow(self, settings: dict[str, Any] | None = None, *, key: str = KEY) -> None:
        """The workflow, and the environment that the service is started with."""
        ours = {
            "tracker": {"handoff_state": "In Review"},
            "agent": {
                "kind": self.recipe.kind,
                "command": self.recipe.command.format(program=self.program),
                "turn_timeout_ms": 120_000,
                "stall_timeout_ms": 120_000,
                "env": ["DIARY", *self.recipe.passed_on],
            },
            "hooks": {"after_create": f"git clone --quiet {self._origin} ."},
            "budget": {"per_issue": {"sessions": 5}},
        }
        if self.recipe.options:
            ours[self.recipe.kind] = json.loads(self._filled(json.dumps(self.recipe.options), key))
        self.project.workflow(merged(ours, settings or {}), PROMPT)
        self._put_home(key)
        given = {name: self._filled(value, key) for name, value in self.recipe.environment.items()}
        self.project.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "DIARY": str(self.project.diary_path),
            **given,
        }

    def issue(self, script: list[dict[str, Any]], issue_id: str = "1") -> str:
        """An issue whose description is what the model will do."""
        return self.project.add(issue_id, description=_described(script))

    def return_for_rework(self, script: list[dict[str, Any]], issue_id: str = "1") -> None:
        self.project.edit(issue_id, state="To Do", description=_described(script))

    def run(self) -> int:
        return self.start(until_idle=True).wait(PATIENCE)

    def start(self, *, until_idle: bool = False) -> Service:
        return self.project.start(until_idle=until_idle)

    def gate(self) -> tuple[dict[str, Any], Path, Path]:
        """A step that says that it has begun and waits; the two files are that word and the leave to go on."""
        begun, leave = self.home / "begun", self.home / "leave"
        return {"shell": f"touch {begun}; until [ -e {leave} ]; do sleep 0.1; done"}, begun, leave

    def nobody_left(self) -> None:
        assert not self.project.living(), self.project.output()

    def workspace(self, issue_id: str = "1") -> Path:
        return self.project.workspace(issue_id)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.workspace(),
            env=self.project.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def _put_home(self, key: str) -> None:
        identity = "[user]\n\tname = Agent\n\temail = agent@example.invalid\n"
        for name, content in {".gitconfig": identity, **self.recipe.home}.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._filled(content, key))

    def _filled(self, text: str, key: str) -> str:
        return text.replace("{model}", self.model.url).replace("{key}", key).replace("{home}", str(self.home))

    def _make_origin(self, path: Path) -> Path:
        path.mkdir()
        (path / "README.md").write_text("# Something to work on\n")
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Begin"]):
            subprocess.run(["git", *command], cwd=path, env=environment, check=True)
        return path


def _described(script: list[dict[str, Any]]) -> str:
    return f"Do what the script says. <script>{json.dumps(script)}</script>"
