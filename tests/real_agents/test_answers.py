"""A real agent that asks is answered in its own conversation."""

from __future__ import annotations

import json

from tests import npm

from .scene import REVIEW

pytestmark = npm.TIME_TO_INSTALL

ASK = [{"shell": "mkdir -p .sortie && printf 'blocked\\nreason: which port?\\n' > .sortie/status"}, {"text": "?"}]
GO_ON = [{"shell": REVIEW}, {"text": "Port 8080 it is."}]


def test_an_agent_that_asked_hears_the_answer_as_the_next_prompt_of_its_session(scene_of):
    scene = scene_of("claude-code")
    project = scene.project
    scene.issue(ASK)
    assert scene.run() == 3, project.output()
    assert project.parked()["1"] == ("signal", "which port?")
    said = project.sortie("answer", "T-1", f"Use port 8080. <script>{json.dumps(GO_ON)}</script>")
    assert said.returncode == 0, said.stderr
    assert scene.run() == 0, project.output()
    assert project.state("1") == "In Review"
    first, second = project.runs("1")
    assert first.session_id == second.session_id
    assert scene.model.steps()[-1]["prompts"] == 2, "the model was shown the first prompt again: a real resume"
    scene.nobody_left()
