"""Real agent programs propose a plan: told the format, corrected in one conversation, paid, and nothing is run."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from sortie.plans.load import load_plan
from tests import npm
from tests.e2e.plan_project import COMMAND
from tests.e2e.processes import wait_for

from .plan_scene import PlanScene
from .programs import need
from .recipes import RECIPES
from .scene import KEY, PATIENCE

pytestmark = npm.TIME_TO_INSTALL

USAGE = {"usage": {"input": 1000, "output": 50}}


def proposal(agent: dict[str, str], *, waits_for: str) -> str:
    def task(name: str, **more: object) -> dict[str, object]:
        return {"name": name, "objective": f"Do {name}.", "success_criteria": ["done"], "outputs": ["x.md"], **more}

    tasks = [task("find-out", inputs=["GOAL.md"]), task("write-down", depends_on=[waits_for])]
    return json.dumps({"name": "answer", "defaults": {"agent": agent}, "tasks": tasks}, indent=1)


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_real_agent_proposes_and_corrects_its_plan(name, tmp_path, world):
    agent = {"kind": name, "command": str(need(RECIPES[name].program))}
    bad, good = (proposal(agent, waits_for=one) for one in ("find-it", "find-out"))
    script: list[dict[str, Any]] = [
        {"shell": f"cat GOAL.md files.txt; cat > plan.yaml <<'END'\n{bad}\nEND"},
        {"text": "Here is the plan.", "times": 1},
        {"shell": f"cat > plan.yaml <<'END'\n{good}\nEND"},
        {"text": "Corrected."},
    ]
    scene = PlanScene(tmp_path, world, {name: [{**step, **USAGE} for step in script]})
    try:
        project = scene.project
        (project.root / "GOAL.md").write_text("An answer to everything.\n")
        done = subprocess.run(
            [*world.prefix, *COMMAND, "new", "GOAL.md", "--agent", name, "--command", agent["command"]],
            cwd=project.root,
            env=project.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        assert "round 1 of 3: 1 mistake; asking again" in done.stderr
        assert f"proposed by {name} in 2 rounds (4.2k tokens" in done.stdout
        assert ("$" in done.stdout.splitlines()[0]) == (name == "claude-code"), "only it tells what that cost"
        assert "find-out" in done.stdout
        assert [task.name for task in load_plan(project.path).tasks] == ["find-out", "write-down"]
        assert not project.work.exists()
        asked = scene.requests(name)
        assert "Propose a plan for the goal in `GOAL.md`" in asked[0]["told"]
        assert "An answer to everything." in asked[1]["last_result"]
        assert 'there is no task "find-it"; did you mean "find-out"?' in asked[-1]["told"]
        assert "Propose a plan" in asked[-1]["told"], "it was the same conversation"
        assert KEY not in done.stdout + done.stderr
        wait_for(lambda: not project.living())
    finally:
        scene.close()
