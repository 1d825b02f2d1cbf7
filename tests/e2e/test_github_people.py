"""Hundreds of issues on GitHub, and people among them, who answer, close and free some meanwhile."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from pathlib import Path

from tests.npm import TIME_TO_INSTALL
from tests.servers import fault_proxy
from tests.servers.emulate import REPOSITORY
from tests.servers.github_scene import GitHubScene
from tests.servers.github_scene import github as github

from .github_project import KEEPS_ITS_PROMPT, looks, marks, opened, workflow
from .project import Project
from .shell import BLOCKED, FOR_EVER, REVIEW, says

pytestmark = TIME_TO_INSTALL

AGENT = Path(__file__).with_name("mcp_agent.py")
ANSWER = "Take the blue one."
ASKS = f"""\
{KEEPS_ITS_PROMPT}
if grep -q '{ANSWER}' "$SORTIE_WORKFLOW_DIR/prompt-$SORTIE_ISSUE_ID-$SORTIE_ATTEMPT"
then {REVIEW}
else {BLOCKED}; echo 'reason: which colour?' >> .sortie/status
fi
"""
LOOKS_UP = [["call", "tracker_api", {"operation": "fetch_issue", "issue_id": "1"}]]
USES_A_TOOL = f"{sys.executable} {AGENT} {shlex.quote(json.dumps(LOOKS_UP))}; {REVIEW}"

COUNT = 210  # three pages
ASKING = [*range(10, COUNT, 20)]
WITH_A_TOOL = [5, 105, 205]
NEVER_ENDING = [3, 103]
CLOSED_BEFORE = [COUNT - 1, COUNT]
ONCE, TWICE = ["dispatch", "completion"], ["dispatch", "completion"] * 2


def kinds(scene: GitHubScene, number: int) -> list[str]:
    """Of the comments of the service, each of which has to be there once."""
    found = marks(scene, str(number))
    assert max(Counter(found).values(), default=0) <= 1, f"a comment on #{number} is there twice"
    return [mark.rpartition(".")[2] for mark in found]


def test_several_hundred_issues_over_several_pages_are_each_handed_over_once(project: Project, scene: GitHubScene):
    """With people who answer and close, agents that use tools, and a server that fails: A2O-07, A2O-08, A2O-09."""
    scripts = dict.fromkeys(range(1, COUNT + 1), REVIEW)
    scripts |= dict.fromkeys(ASKING, ASKS) | dict.fromkeys(WITH_A_TOOL, USES_A_TOOL)
    scripts |= dict.fromkeys(NEVER_ENDING, FOR_EVER) | dict.fromkeys(CLOSED_BEFORE, says("too late"))
    for script in scripts.values():
        opened(project, scene, script)
    page = "GET .*/issues[?].*[?&]page=2.*"
    scene.server.fail(page, fault_proxy.refused(500))
    scene.server.fail(page, fault_proxy.dropped())
    scene.server.fail("POST .*/issues/7/comments", fault_proxy.dropped(), is_done_first=True)
    # Where work in progress has no label of its own there are two calls less for each of them.
    tracker = {"in_progress_state": "todo"}
    workflow(project, scene, agent={"max_concurrent_agents": 12}, tracker=tracker, polling={"interval_ms": 2000})
    service = project.start()

    def until_said(number: int, expected: list[str]) -> None:
        service.until(lambda: kinds(scene, number) == expected, 150)

    until_said(1, ONCE)
    for number in CLOSED_BEFORE:
        scene.edit(number, state="closed")
    for number in NEVER_ENDING:
        until_said(number, ["dispatch"])
        scene.edit(number, state="closed")
    for number in ASKING:
        until_said(number, ONCE)
    service.until(lambda: {*map(str, ASKING)} == project.parked().keys())
    for number in ASKING:
        scene.comment(number, ANSWER)
    said = {number: TWICE if number in ASKING else ONCE for number in scripts}
    said |= {number: ["dispatch"] for number in NEVER_ENDING} | {number: [] for number in CLOSED_BEFORE}
    for number in scripts:
        until_said(number, said[number])
    service.until(lambda: not (now := project.schedule()).running and not now.effects)
    assert service.stop() == 0

    assert {one.status for one in scene.server.exchanges} >= {500}, "the second page failed once"
    assert {number: kinds(scene, number) for number in scripts} == said
    closed = {*NEVER_ENDING, *CLOSED_BEFORE}
    ends = {number: [run.status for run in project.runs(str(number))] for number in scripts}
    assert ends == {
        number: ["cancelled"] * (number in NEVER_ENDING)
        if number in closed
        else ["succeeded"] * (len(said[number]) // 2)
        for number in scripts
    }
    records = {number: scene.record(number) for number in scripts}
    assert {number for number, record in records.items() if record["state"] == "closed"} == closed
    labels = {number: [label["name"] for label in records[number]["labels"]] for number in scripts}
    assert {number for number, names in labels.items() if names == ["review"]} == {*scripts} - closed
    answers = [json.loads(line) for line in project.diary()]
    assert [answer["data"]["identifier"] for answer in answers] == [f"{REPOSITORY}#1"] * len(WITH_A_TOOL)


def test_an_issue_that_waits_for_an_answer_is_freed_by_hand(project: Project, scene: GitHubScene):
    """A2O-09: without a word on GitHub, while the service runs, by the number that people know."""
    workflow(project, scene)
    issue = opened(project, scene, f"{says('run $SORTIE_ATTEMPT')}; {BLOCKED}")
    service = project.start()
    service.until(lambda: issue in project.parked())
    before = looks(scene)
    service.until(lambda: looks(scene) > before + 2)
    assert project.diary() == ["run 1"]
    (project.root / "agents" / f"{issue}.sh").write_text(f"{says('run $SORTIE_ATTEMPT')}; {REVIEW}")
    answer = project.sortie("unpark", f"#{issue}")
    assert (answer.returncode, answer.stdout) == (0, f"{REPOSITORY}#{issue} is free to start again.\n")
    service.until(lambda: scene.labels(int(issue)) == ["review"])
    service.until(lambda: kinds(scene, int(issue)) == TWICE)
    assert service.stop() == 0
    assert project.diary() == ["run 1", "run 2"]
    assert project.parked() == {}
