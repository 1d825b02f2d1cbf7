"""An agent asks, a person answers with `sortie answer`, and the same conversation goes on with it."""

from __future__ import annotations

import sys

import pytest

from sortie.core import events as ev
from sortie.core.observe import mark_of
from sortie.runs.prompt_log import kept_prompts
from sortie.store.commands import add_commands

from .project import Project
from .shell import BLOCKED, REVIEW

# Asks until it is answered. Each prompt is kept, in the order of the turns.
ASKS = f"""
cat > prompt
cat prompt >> "$SORTIE_WORKFLOW_DIR/prompts"; echo "--- $SORTIE_SESSION_ID" >> "$SORTIE_WORKFLOW_DIR/prompts"
if grep -q 'the second one' prompt; then {REVIEW}
else {BLOCKED}; echo 'reason: which database?' >> .sortie/status; fi
"""
SETTINGS = {"budget": {"per_issue": {"sessions": 20}}, "tracker": {"handoff_state": "In Review"}}


@pytest.fixture
def parked(project: Project) -> Project:
    project.workflow(SETTINGS)
    project.add("1", ASKS)
    assert project.run() == 3, project.output()
    assert project.parked()["1"] == ("signal", "which database?")
    return project


def turns(project: Project) -> list[tuple[str, str]]:
    """The prompt of each turn, and the conversation that it was in."""
    whole = (project.root / "prompts").read_text().split("--- ")
    sessions = [part.split("\n", 1)[0] for part in whole[1:]]
    prompts = [whole[0], *(part.split("\n", 1)[1] for part in whole[1:-1])]
    return list(zip(prompts, sessions, strict=True))


def answers_in_tracker(project: Project) -> list[str]:
    bodies = [comment["body"] for comment in project.issue("1").get("comments", ())]
    return [body for body in bodies if (mark_of(body) or "").endswith(".answer")]


def assert_went_on(project: Project, *told: str) -> None:
    (asked, before), (answered, after) = turns(project)
    assert before == after, "the same conversation"
    assert "A person answered your question" not in asked
    assert all(answered.count(f"```answer\n{text}\n```") == 1 for text in told)
    assert project.state("1") == "In Review"
    assert len(answers_in_tracker(project)) == len(told)
    schedule = project.schedule()
    assert (schedule.answers, schedule.effects) == ({}, {})


def test_an_answer_through_the_service_frees_the_issue_and_the_agent_completes(parked):
    service = parked.start()
    service.until(lambda: len(parked.events(ev.Opened)) == 2)
    said = parked.sortie("answer", "T-1", "Use the second one.")
    assert (said.returncode, said.stdout) == (0, "T-1 is free to start again; its agent gets your answer.\n")
    service.until(lambda: len(parked.runs("1")) == 2)
    assert service.stop() == 0
    assert_went_on(parked, "Use the second one.")
    why = parked.sortie("why", "T-1").stdout
    for words in (
        "a person answered: Use the second one.",
        "no longer parked: answered",
        "comment with the answer in the tracker done",
    ):
        assert words in why


def test_answers_without_a_service_are_told_and_shown_by_the_next_one(parked):
    assert parked.sortie("answer", "T-1", "Use", "the second one.").returncode == 0
    again = parked.sortie("answer", "T-1", "No, the third.")
    assert again.stdout == "T-1 is not running now; its agent gets your answer when it starts again.\n"
    assert answers_in_tracker(parked) == []
    assert [one.text for one in parked.schedule().answers.values()] == ["Use the second one.", "No, the third."]
    assert parked.run() == 0, parked.output()
    assert_went_on(parked, "Use the second one.", "No, the third.")


def test_a_turn_after_the_one_that_was_told_hears_nothing_of_it(parked):
    """And the comment, which is ours, neither frees nor starts anything."""
    parked.sortie("answer", "T-1", "Neither of them.")
    assert parked.run() == 3, parked.output()
    assert parked.parked()["1"] == ("signal", "which database?")
    parked.run()
    parked.sortie("unpark", "T-1")
    parked.run()
    _, (told, _), (later, _) = turns(parked)
    assert "Neither of them." in told
    assert "Neither of them." not in later
    assert len(answers_in_tracker(parked)) == 1


def test_a_task_of_a_plan_is_answered_too_and_no_page_is_written_for_it(plan):
    """Its tracker is the plan, where nobody comments: only the next attempt is told."""
    plan.task("stuck", "cat > prompt; if grep -q 'Deliver it.' prompt; then deliver; fi", when_failed="escalate")
    plan.run(3)
    escalated = (plan.work / "ESCALATIONS.md").read_bytes()
    add_commands(plan.store, "answer", ["stuck"], "Deliver it.")
    plan.run(0)
    assert (plan.work / "ESCALATIONS.md").read_bytes() == escalated


def test_what_an_agent_was_told_is_on_record_without_secrets(project):
    project.workflow(SETTINGS | {"agent": {"env": ["AGENT_API_KEY"]}})
    project.add("1", REVIEW, title="Use sk-live-0123456789abcdef for it")
    project.environment["AGENT_API_KEY"] = "sk-live-0123456789abcdef"
    project.run()
    (path,) = project.root.rglob("*.prompts")
    (prompt,) = kept_prompts(path, lambda text: text)
    assert prompt.turn == 1 and "[redacted] for it" in prompt.text and ".sortie/status" in prompt.text


@pytest.mark.parametrize("command", ["answer T-2 'go on'", "unpark T-2", "retry T-2", "start T-2", "stop T-2"])
def test_an_agent_decides_nothing_about_issues_of_its_own_service(project, command):
    """Neither directly nor by a shell that dropped its variables: the limit that marks it stays."""
    project.workflow(SETTINGS)
    project.add("2", BLOCKED)
    assert project.run() == 3, project.output()
    sortie = f'{sys.executable} -m sortie {command} -w "{project.workflow_path}"'
    tries = f"{sortie} 2>> $DIARY; env -i PATH=$PATH {sortie} 2>> $DIARY"
    project.add("1", f"{tries}; {REVIEW}")
    assert project.run() == 3, project.output()
    assert project.state("1") == "In Review"
    assert [line.startswith("sortie: Only a person may") for line in project.diary()] == [True, True]
    assert [*project.parked()] == ["2"] and len(project.runs("2")) == 1
