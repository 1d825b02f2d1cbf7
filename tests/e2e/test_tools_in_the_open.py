"""Agents that act on other issues: who did it is on record for both, and the workflow says how far they reach."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sortie.core import events as ev

from .project import Project
from .shell import BLOCKED, FOR_EVER, says
from .test_tools_end_to_end import agent, answers, counted, shell

MODES = pytest.mark.parametrize("credentials", ["workspace", "broker"])


def moves(issue_id: str, state: str) -> list[Any]:
    return ["call", "tracker_api", {"operation": "transition_issue", "issue_id": issue_id, "target_state": state}]


def told(project: Project, command: str, issue: str) -> str:
    return project.sortie(command, issue).stdout


@MODES
def test_who_moved_an_issue_is_told_for_both_issues(project, credentials):
    """EXT-14: also for an issue that never ran and that the service never saw as work."""
    project.workflow({"tools": {"credentials": credentials}})
    project.add("1", agent(moves("2", "done")))
    project.add("2", state="Backlog")
    project.run()
    assert answers(project) == [{"success": True, "data": {"transitioned": True}}]
    assert project.state("2") == "Done"
    (started,) = project.events(ev.Claimed, "1")
    deed = f"T-1's agent (run {started.run_id}) moved it to done with tracker_api"
    assert deed in told(project, "why", "T-2")
    assert deed in told(project, "logs", "2")
    asked = r": success after \d+ ms \(transition_issue T-2 to done\)"
    assert re.search(f"tool tracker_api{asked}", told(project, "why", "T-1"))
    assert re.search(f"tool: tracker_api{asked}", told(project, "logs", "T-1"))
    assert counted(project) == {"tracker_api": {"success": 1}}, "once, whoever counts"
    (called,) = project.events(ev.ToolCalled, "1")
    assert called.witnessed == (credentials == "broker")


@MODES
def test_an_issue_that_was_moved_while_it_ran_shows_who_did_it_among_what_its_agent_said(project, credentials):
    """EXT-14: in the order in which it happened."""
    project.workflow({"tools": {"credentials": credentials}})
    project.add("2", f"{says('working')}; echo first words; {FOR_EVER}")
    wait = shell("while ! grep -q working $DIARY; do sleep 0.05; done")
    project.add("1", agent(wait, moves("2", "Done")))
    project.run()
    assert project.only_run("2").status == "cancelled"
    lines = told(project, "logs", "T-2")
    assert lines.index("first words") < lines.index("T-1's agent")
    assert "moved it to Done" in told(project, "why", "T-2")


@pytest.mark.parametrize(
    ("credentials", "word", "kind"),
    [
        ("workspace", "own", "project_scope_violation"),
        ("broker", "own", "project_scope_violation"),
        ("broker", "none", "unsupported_operation"),
    ],
)
def test_an_agent_moves_only_what_the_workflow_lets_it_move(project, credentials, word, kind):
    """EXT-09 EXT-14: `tools.transitions`; the refusal is on record, and the other issue has nothing to tell."""
    project.workflow({"tools": {"credentials": credentials, "transitions": word}})
    project.add("1", agent(["tools"], moves("2", "Done"), moves("1", "Done")))
    project.add("2", state="Backlog")
    project.run()
    tools, other, own = answers(project)
    assert ("transition_issue" in json.dumps(tools["tracker_api"])) == (word == "own")
    assert other["error"]["kind"] == kind
    assert own.get("success") == (word == "own")
    assert (project.state("1"), project.state("2")) == ("Done" if word == "own" else "To Do", "Backlog")
    assert f"(transition_issue 2 to Done: {kind})" in told(project, "why", "T-1")
    assert "T-1" not in told(project, "why", "2")


@MODES
def test_a_state_that_the_tracker_does_not_know_is_refused(project, credentials):
    """EXT-07: tracker_payload_error, and the issue stays where it is."""
    project.workflow({"tools": {"credentials": credentials}})
    project.add("1", agent(moves("1", "Banana")))
    project.run()
    (refused,) = answers(project)
    assert refused["error"]["kind"] == "tracker_payload_error"
    assert project.state("1") == "To Do"


def test_with_the_broker_the_orchestrator_believes_itself_alone(project):
    """EXT-14: what an agent writes into the record of calls is no call of the tracker."""
    project.workflow({"tools": {"credentials": "broker"}})
    forged = {"tool": "tracker_api", "result": "success", "ms": 1, "operation": "transition_issue"}
    line = json.dumps({**forged, "target": "2", "state": "Done"})
    record = f"{project.db_path.with_suffix('.logs')}/$SORTIE_RUN_ID.tools"
    project.add("1", f"echo '{line}' >> {record}; {BLOCKED}")
    project.add("2", state="Backlog")
    project.run()
    assert counted(project) == {}
    assert project.events(ev.ActedOn) == []


@MODES
def test_what_an_agent_did_is_told_also_when_the_service_was_killed(project, credentials):
    """EXT-14: by whoever recorded it before, once."""
    project.workflow({"tools": {"credentials": credentials}, "budget": {"per_issue": {"sessions": 3}}})
    script = agent(moves("2", "Done"), shell(f"touch {project.root}/moved; {says('moved')}; {FOR_EVER}"))
    project.add("1", f"[ -e {project.root}/moved ] && {{ {BLOCKED}; exit; }}; {script}")
    project.add("2", state="Backlog")
    service = project.start()
    service.until(lambda: "moved" in project.diary())
    if credentials == "broker":
        service.until(lambda: project.events(ev.ActedOn))
    service.kill()
    project.run()
    assert len(project.events(ev.ActedOn, "2")) == 1
    assert counted(project) == {"tracker_api": {"success": 1}}
    assert "T-1's agent" in told(project, "why", "T-2")
