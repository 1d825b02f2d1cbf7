"""Each real agent program works an issue from the tracker to its hand-over, and goes on with its conversation."""

from __future__ import annotations

from typing import Any

from sortie.store import queries as reading
from tests import npm

from .scene import KEY, REVIEW

pytestmark = npm.TIME_TO_INSTALL

USAGE = {"usage": {"input": 1000, "output": 50}}
WORK: list[dict[str, Any]] = [
    {"shell": "printenv | grep sk-fake; echo repaired >> README.md && git commit --quiet -am Repair"},
    {"mcp": "tracker_api", "args": {"operation": "fetch_issue", "issue_id": "1"}},
    {"mcp": "sortie_status", "args": {}},
    {"shell": REVIEW},
    {"text": "The repair is ready."},
]
REWORK: list[dict[str, Any]] = [{"shell": "echo again >> README.md"}, {"shell": REVIEW}, {"text": "Reworked."}]


def test_works_an_issue_hands_it_off_and_goes_on_with_the_conversation(any_scene):
    """A2O-08, EXT-03: own shell, our tools over MCP, status file, hand-over; then rework in the same session."""
    scene = any_scene
    scene.issue([{**step, **USAGE} for step in WORK])
    assert scene.run() == 0, scene.project.output()

    project = scene.project
    assert project.state("1") == "In Review", scene.project.run_log()
    run = project.only_run("1")
    assert (run.status, run.soft_stop, run.reason) == ("succeeded", "needs-human-review", "please look")
    assert run.session_id
    assert scene.git("log", "--format=%s").split() == ["Repair", "Begin"]
    assert (scene.workspace() / "README.md").read_text().endswith("repaired\n")
    with project.store() as db:
        called = reading.tool_calls(db)
    assert called == {"tracker_api": {"success": 1}, "sortie_status": {"success": 1}}
    assert KEY not in project.run_log() + project.output(), "the agent was made to print its key"
    assert all(request["authorised"] for request in scene.model.requests())
    scene.nobody_left()

    scene.return_for_rework([{**step, **USAGE} for step in REWORK])
    assert scene.run() == 0, scene.project.output()
    assert project.state("1") == "In Review"
    first, second = project.runs("1")
    assert second.session_id, "a fresh one may have begun, but without a failed attempt"
    if scene.recipe.resumes:
        assert second.session_id == first.session_id
        assert scene.model.steps()[-1]["prompts"] == 2, "the model was shown the first prompt again: a real resume"
    scene.nobody_left()

    # Each answer was 1,000 tokens in and 50 out, whatever the agent's own counters mean.
    answers = (len(WORK), len(REWORK)) if scene.recipe.counts == "all steps" else (1, 1)
    used = [(run.tokens.input, run.tokens.output) for run in project.runs("1")]
    assert used == [(1000 * count, 50 * count) for count in answers]
