"""`sortie doctor` on each real agent program: found, version, key, tools, and one real exchange."""

from __future__ import annotations

import json
import subprocess

from tests import npm
from tests.e2e.project import COMMAND

from .scene import PATIENCE, Scene

pytestmark = npm.TIME_TO_INSTALL


def doctor(scene: Scene, *options: str) -> tuple[int, dict[str, dict[str, str]]]:
    done = subprocess.run(
        [*scene.project.prefix, *COMMAND, "doctor", scene.project.workflow_path.name, "--json", *options],
        cwd=scene.project.root,
        env=scene.project.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout, done.stderr
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_the_doctor_probes_the_agent(scene):
    code, checks = doctor(scene, "--probe")
    agent = checks[f"agent ({scene.recipe.kind})"]
    looked_at = {name: checks[name]["verdict"] for name in ("version", "tools", "exchange", "agent's tools")}
    assert (code, agent["verdict"], set(looked_at.values())) == (0, "PASS", {"PASS"}), checks
    assert checks["login"]["verdict"] in ("PASS", "WARN"), "some can do without"
    assert "ready" in checks["exchange"]["detail"]
    assert not scene.project.db_path.exists(), "nothing is kept of it"
    scene.nobody_left()


def test_the_doctor_tells_a_refused_key(scene_of):
    scene = scene_of("claude-code")
    scene.workflow(key="sk-wrong-0123456789")
    code, checks = doctor(scene, "--probe")
    assert code == 1
    assert (checks["exchange"]["verdict"], "agent_auth" in checks["exchange"]["detail"]) == ("FAIL", True), checks
    scene.nobody_left()
