"""Which conversation a run goes on with: that of the issue's last run, if the same agent led it in these files."""

from __future__ import annotations

import shutil

SCRIPT = """
echo "session $SORTIE_SESSION_ID" >> "$DIARY"
mkdir -p .sortie; echo needs-human-review > .sortie/status
"""


def hand_over(project):
    project.workflow({"tracker": {"handoff_state": "In Review"}, "budget": {"per_issue": {"sessions": 5}}})
    project.add("1", SCRIPT)
    assert project.run() == 0, project.output()


def rework(project):
    project.edit("1", state="To Do", description="Please change it once more.")
    assert project.run() == 0, project.output()
    return project.diary()


def test_rework_after_a_hand_over_goes_on_with_the_conversation(project):
    hand_over(project)
    first, second = rework(project)
    assert first == second


def test_a_new_workspace_begins_a_new_conversation(project):
    hand_over(project)
    shutil.rmtree(project.workspace("1"))
    first, second = rework(project)
    assert first != second


def test_another_kind_of_agent_begins_a_new_conversation(project):
    hand_over(project)
    session = project.only_run("1").session_id
    settings = {"tracker": {"handoff_state": "In Review"}, "agent": {"kind": "mock"}}
    project.workflow({**settings, "budget": {"per_issue": {"sessions": 5}}})
    rework(project)
    assert project.runs("1")[-1].agent == "mock"
    assert project.runs("1")[-1].session_id != session
