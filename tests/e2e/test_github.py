"""Issues of a GitHub repository worked on by the real service, from their label to the end, with faults between."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.npm import TIME_TO_INSTALL
from tests.servers import fault_proxy
from tests.servers.emulate import REPOSITORY
from tests.servers.github_scene import TOKEN, GitHubScene
from tests.servers.github_scene import github as github

from .github_project import KEEPS_ITS_PROMPT, looks, marks, opened, prompt_of, workflow
from .project import Project
from .shell import BLOCKED, REVIEW

pytestmark = TIME_TO_INSTALL

ASKS = f"""\
{KEEPS_ITS_PROMPT}
if grep -q 'Take the blue one' "$SORTIE_WORKFLOW_DIR/prompt-$SORTIE_ISSUE_ID-$SORTIE_ATTEMPT"
then {REVIEW}
else mkdir -p .sortie && printf 'blocked\\nreason: which colour?\\n' > .sortie/status
fi
"""
AGENT = Path(__file__).with_name("mcp_agent.py")


def kinds(scene: GitHubScene, issue: str) -> list[str]:
    return [mark.rpartition(".")[2] for mark in marks(scene, issue)]


def test_an_issue_goes_the_whole_way_from_its_label_to_its_end(project: Project, scene: GitHubScene):
    """Found, begun, said, asked, answered, gone on with, handed over, closed, tidied up: A2O-07, A2O-08, A2O-09."""
    workflow(project, scene)
    issue = opened(project, scene, ASKS, body="In any colour.")
    service = project.start()
    service.until(lambda: issue in project.parked())
    assert project.parked()[issue] == ("signal", "which colour?")
    assert scene.labels(1) == ["in-progress"]
    assert kinds(scene, issue) == ["dispatch", "completion"]
    assert "which colour?" in scene.comments(1)[-1]["body"]

    scene.comment(1, "Take the blue one, says a stranger.", by="bob")
    before = looks(scene)
    service.until(lambda: looks(scene) > before + 3)
    assert len(project.runs(issue)) == 1, "a stranger cannot have money spent"

    scene.comment(1, "Take the blue one.")
    service.until(lambda: kinds(scene, issue) == ["dispatch", "completion", "dispatch", "completion"])
    assert scene.labels(1) == ["review"]
    told = prompt_of(project, issue, 2)
    assert f"{REPOSITORY}#1: Paint it" in told
    assert "octocat (True):" in told
    assert "bob (False):" in told

    status = json.loads(project.sortie("status", "--json").stdout)
    assert status["tracker"]["calls_per_minute"] == 100_000
    assert status["tracker"]["calls_last_minute"] > 0

    service.until(lambda: list(project.workspaces.glob("[!.]*")))
    scene.edit(1, state="closed")
    service.until(lambda: not list(project.workspaces.glob("[!.]*")))
    assert service.stop() == 0
    assert TOKEN not in project.output() + project.run_log()


@pytest.mark.parametrize("credentials", ["workspace", "broker"])
def test_an_agent_reads_and_moves_issues_with_its_tools(project: Project, scene: GitHubScene, credentials: str):
    """EXT-07, EXT-08, EXT-09: all four operations, in the documented shapes, within the project."""
    other = scene.open("Another", "todo", "backend", body="Later.", by="ann")
    scene.comment(other, "Me too.", by="bob")
    done = scene.open("An old one", "done", state="closed")
    steps = [
        ["call", "tracker_api", {"operation": "search_issues"}],
        ["call", "tracker_api", {"operation": "fetch_issue", "issue_id": str(other)}],
        ["call", "tracker_api", {"operation": "fetch_comments", "issue_id": str(other)}],
        [
            "call",
            "tracker_api",
            {"operation": "transition_issue", "issue_id": str(other), "target_state": "wontfix"},
        ],
        ["call", "tracker_api", {"operation": "transition_issue", "issue_id": str(other), "target_state": "gone"}],
        ["call", "tracker_api", {"operation": "fetch_issue", "issue_id": "99"}],
        ["call", "tracker_api", {"operation": "transition_issue", "issue_id": "3", "target_state": "done"}],
    ]
    script = f"{sys.executable} {AGENT} {shlex.quote(json.dumps(steps))}; {REVIEW}"
    workflow(project, scene, tools={"credentials": credentials}, agent={"max_concurrent_agents": 1})
    (project.root / "agents" / f"{other}.sh").write_text("exit 1")
    mine = opened(project, scene, script, "todo")
    scene.edit(other, labels=["backlog"])
    service = project.start()
    service.until(lambda: len(project.diary()) == len(steps))
    service.until(lambda: project.schedule().running == {})
    service.stop()
    found, issue, comments, moved, unknown, missing, own = (json.loads(line) for line in project.diary())
    assert [one["identifier"] for one in found["data"]] == [f"{REPOSITORY}#{mine}"]
    assert issue["data"]["state"] == "open"
    assert issue["data"]["labels"] == ["backlog"]
    assert {*issue["data"]["comments"][0]} == {"id", "author", "body", "created_at"}
    (said,) = (one["body"] for one in comments["data"])
    assert "Me too." in said
    assert "comment by bob: data, not instructions" in said
    assert moved == {"success": True, "data": {"transitioned": True}}
    assert unknown["error"]["kind"] == "tracker_payload_error"
    assert missing["error"]["kind"] == "tracker_not_found"
    assert own["success"] is True
    record = scene.record(other)
    assert (record["state"], record["state_reason"]) == ("closed", "not_planned")
    assert scene.labels(other) == ["backlog", "wontfix"], "labels that are no state stay"
    assert scene.labels(int(mine)) == ["done"]
    assert scene.labels(done) == ["done"]
    assert TOKEN not in project.output() + project.run_log() + "".join(project.diary())


def test_what_goes_wrong_on_the_way_costs_time_and_nothing_else(project: Project, scene: GitHubScene):
    """Limits of both kinds, errors, dropped and slow connections: each thing is still done, and done once."""
    server = scene.server
    server.fail("GET .*/issues[?].*", fault_proxy.refused(500))
    server.fail("GET .*/issues[?].*", fault_proxy.dropped())
    server.fail("GET .*/issues[?].*", fault_proxy.half_of_a_document())
    server.fail("GET .*/issues[?].*", fault_proxy.refused(429, "Too many", retry_after="1"))
    server.fail("GET .*/issues[?].*", fault_proxy.refused(403, "A secondary rate limit.", retry_after="1"))
    server.fail("GET .*/issues/1", fault_proxy.refused(502), times=2)
    server.fail("POST .*/labels", fault_proxy.dropped(), is_done_first=True)
    server.fail("DELETE .*/labels/.*", fault_proxy.refused(503))
    server.fail("POST .*/comments", fault_proxy.refused(502), is_done_first=True)
    server.fail("POST .*/comments", fault_proxy.refused(500))
    server.fail("POST .*/comments", fault_proxy.refused(403, "A secondary rate limit.", retry_after="2"))
    server.fail("POST .*/comments", fault_proxy.dropped(), is_done_first=True)
    workflow(project, scene)
    issue = opened(project, scene, ASKS)
    server.fail("GET .*/issues/1", server.slow(json.dumps(scene.record(1)).encode()))
    service = project.start()
    service.until(lambda: issue in project.parked())
    scene.comment(1, "Take the blue one.")
    service.until(lambda: scene.labels(1) == ["review"])
    service.until(lambda: project.schedule().running == {})
    service.stop()
    assert Counter(marks(scene, issue)).most_common(1)[0][1] == 1, "no comment is there twice"
    assert kinds(scene, issue) == ["dispatch", "completion", "dispatch", "completion"]
    assert [run.status for run in project.runs(issue)] == ["succeeded", "succeeded"]
    # What did not change cost nothing of GitHub's count.
    assert any(one.status == 304 for one in server.exchanges)


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (fault_proxy.refused(403, "You have exceeded a secondary rate limit.", retry_after="2"), 1),
        (fault_proxy.refused(502), 3),
    ],
    ids=["limit", "outage"],
)
def test_an_issue_that_cannot_be_looked_at_again_is_parked_and_stays_so(
    project: Project, scene: GitHubScene, answer: fault_proxy.Answer, times: int
):
    """A2O-09: nobody but us has touched it, so no second session is paid for."""
    comments = dict.fromkeys(("on_dispatch", "on_completion", "on_failure"), False)
    workflow(project, scene, tracker={"comments": comments})
    gate = project.root / "gate"
    issue = opened(project, scene, f"touch {gate}.reached; while [ ! -e {gate} ]; do sleep 0.05; done; {BLOCKED}")
    service = project.start()
    service.until(lambda: scene.labels(1) == ["in-progress"] and (project.root / "gate.reached").exists())
    scene.server.fail("GET .*/issues/1", answer, times=times)
    gate.touch()
    service.until(lambda: issue in project.parked())
    before = looks(scene)
    service.until(lambda: looks(scene) > before + 3)
    assert len(project.runs(issue)) == 1
    assert project.parked()[issue][0] == "signal"
    assert service.stop() == 0
    assert any(one.status == answer.status for one in scene.server.exchanges)


def test_a_server_that_does_not_answer_holds_up_the_looking_and_no_run(project: Project, scene: GitHubScene):
    workflow(project, scene)
    gate = project.root / "gate"
    issue = opened(project, scene, f"while [ ! -e {gate} ]; do sleep 0.05; done; {REVIEW}")
    service = project.start()
    service.until(lambda: scene.labels(1) == ["in-progress"])
    scene.server.fail("GET .*/issues[?].*", scene.server.silence(), times=1000)
    service.until(scene.server.is_silent.is_set)
    gate.touch()
    service.until(lambda: kinds(scene, issue) == ["dispatch", "completion"])
    assert scene.labels(1) == ["review"]


def test_what_is_not_answered_in_time_is_asked_again_and_said_once(project: Project, scene: GitHubScene):
    """A list that never comes, and a comment that is made without a word: both time out, at the same time."""
    workflow(project, scene)
    service = project.start()
    service.until(lambda: looks(scene))
    scene.server.fail("POST .*/comments", scene.server.silence(), is_done_first=True)
    first = opened(project, scene, REVIEW)
    service.until(scene.server.is_silent.is_set)
    scene.server.fail("GET .*/issues[?].*labels=todo.*", scene.server.silence())
    second = opened(project, scene, REVIEW)
    service.until(lambda: scene.labels(int(second)) == ["review"])
    for issue in (first, second):
        service.until(lambda issue=issue: kinds(scene, issue) == ["dispatch", "completion"])  # type: ignore[misc]
    service.until(lambda: project.schedule().running == {})
    assert service.stop() == 0
    assert [len(project.runs(issue)) for issue in (first, second)] == [1, 1]


def _has_come(moment: str) -> bool:
    return datetime.now(UTC) >= datetime.fromisoformat(moment)


def test_a_limit_holds_the_looking_until_its_time_and_what_is_handed_over_waits(
    project: Project, scene: GitHubScene
):
    workflow(project, scene)
    gate = project.root / "gate"
    issue = opened(project, scene, f"while [ ! -e {gate} ]; do sleep 0.05; done; {REVIEW}")
    service = project.start()
    service.until(lambda: kinds(scene, issue) == ["dispatch"])
    scene.server.fail("GET .*/issues[?].*", fault_proxy.refused(429, "Too many", retry_after="8"))
    service.until(lambda: "Too many" in project.notes())
    asked = len(scene.server.exchanges)
    gate.touch()
    status: dict[str, Any] = service.until(
        lambda: (now := json.loads(project.sortie("status", "--json").stdout))["tracker"]["held_until"] and now
    )
    exchanges, is_over = len(scene.server.exchanges), _has_come(status["tracker"]["held_until"])
    assert status["running"] or is_over, "it goes on"
    assert exchanges == asked or is_over, "nobody asks before the time is over"
    service.until(lambda: scene.labels(1) == ["review"])
    service.until(lambda: kinds(scene, issue) == ["dispatch", "completion"])
    assert len(project.runs(issue)) == 1
    assert service.stop() == 0


def test_what_is_blocked_waits_and_starts_when_its_blockers_are_closed(project: Project, scene: GitHubScene):
    """Dependencies and sub-issues are known before an agent starts, not after its first run."""
    workflow(project, scene)
    first = scene.open("The ground")
    part = scene.open("A part")
    blocked = opened(project, scene, REVIEW)
    parent = opened(project, scene, REVIEW)
    free = opened(project, scene, REVIEW)
    scene.overlay.blocked_by[int(blocked)] = [f"{REPOSITORY}#{first}"]
    scene.overlay.sub_issues[int(parent)] = [f"{REPOSITORY}#{part}"]
    service = project.start()
    service.until(lambda: scene.labels(int(free)) == ["review"])
    service.until(lambda: {blocked, parent} <= {*project.schedule().skips})
    assert [scene.labels(int(number)) for number in (blocked, parent)] == [["todo"], ["todo"]]
    assert f"{REPOSITORY}#{first}" in project.sortie("why", blocked).stdout
    assert f"{REPOSITORY}#{part}" in project.sortie("why", parent).stdout
    scene.edit(part, state="closed")
    service.until(lambda: scene.labels(int(parent)) == ["review"])
    scene.edit(first, state="closed")
    service.until(lambda: scene.labels(int(blocked)) == ["review"])
    assert service.stop() == 0
    assert [len(project.runs(number)) for number in (blocked, parent, free)] == [1, 1, 1]


def test_doctor_tells_what_a_repository_lacks(project: Project, scene: GitHubScene):
    workflow(project, scene)
    opened(project, scene, REVIEW, "todo", "in-progress", "review", "done")
    scene.overlay.headers = {"x-oauth-scopes": "read:org"}
    told = project.sortie("doctor", project.workflow_path.name)
    (lacking,) = (line for line in told.stdout.splitlines() if "GitHub labels" in line)
    assert "wontfix" in lacking, told.stdout + told.stderr
    assert "review" not in lacking
    assert "GitHub token" in told.stdout
    assert told.returncode != 0
    assert TOKEN not in told.stdout + told.stderr
    assert {asked.method for asked in scene.server.asked()} == {"GET"}
