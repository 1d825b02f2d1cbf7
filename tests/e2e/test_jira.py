"""Issues of a Jira project, worked on by the real service: from the first look to the hand-off, through questions,
answers, and an end without warning between a write to Jira and its answer."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sortie.core import events as ev
from sortie.core.observe import mark_of
from sortie.trackers.jira.adf_text import text_of
from tests import npm
from tests.servers.jira_fake import KEY, TOKEN, JiraFake, drops, waits
from tests.servers.jira_schema import JiraSchema
from tests.servers.jira_store import ANN, CUSTOMER, StoredIssue, paragraph

from .project import Project
from .shell import BLOCKED, REVIEW, says

pytestmark = npm.TIME_TO_INSTALL

AGENT = Path(__file__).with_name("mcp_agent.py")
ASKS = f"{says('run $SORTIE_ATTEMPT')}; {BLOCKED}; echo 'reason: which database?' >> .sortie/status"


@pytest.fixture
def jira() -> Iterator[JiraFake]:
    with JiraFake(JiraSchema()).running() as fake:
        yield fake
    assert fake.problems == []


@pytest.fixture
def site(jira: JiraFake, project: Project) -> Project:
    """The project, whose issues are those of the site."""
    project.environment["JIRA_KEY"] = KEY
    project.workflow(settings(jira))
    return project


def settings(jira: JiraFake, **more: Any) -> dict[str, Any]:
    return {
        "tracker": {
            "kind": "jira",
            "endpoint": jira.url,
            "project": "PROJ",
            "api_key": "$JIRA_KEY",
            "active_states": ["Todo", "In Progress"],
            "terminal_states": ["Done"],
            "in_progress_state": "In Progress",
            "handoff_state": "In Review",
            "calls_per_minute": 10_000,
            "comments": {"on_dispatch": True, "on_completion": True},
        },
        "budget": {"per_issue": {"sessions": 20}},
        **more,
    }


def give(project: Project, issue: StoredIssue, script: str) -> str:
    (project.root / "agents" / f"{issue.id}.sh").write_text(script)
    return str(issue.id)


def comments(issue: StoredIssue) -> list[str]:
    return [text_of(comment.body) for comment in issue.comments]


def marks(issue: StoredIssue) -> list[str | None]:
    return [mark_of(body) for body in comments(issue)]


def test_an_issue_goes_from_the_first_look_to_the_hand_off(jira: JiraFake, site: Project) -> None:
    """In progress while the agent works, said when it begins and ends, handed over at the end."""
    blocker, blocked = jira.store.add("First"), jira.store.add("Then")
    jira.store.block(blocked, blocker)
    issue = jira.store.add("Write it", description=paragraph("In three lines."), priority="1")
    other = jira.store.add("Not ours", project="OTHER")
    give(site, issue, f"{says('$SORTIE_ISSUE_IDENTIFIER')}; cat > prompt.txt; {REVIEW}")
    give(site, blocker, BLOCKED)
    assert site.run() == 3
    assert (issue.status, blocked.status, other.status) == ("In Review", "Todo", "Todo")
    began, ended = comments(issue)
    assert "Sortie" in began
    assert "sortie:" in ended
    assert len({*marks(issue)}) == 2
    assert None not in marks(issue)
    assert comments(blocked) == comments(other) == []
    moves = [call for call in jira.requests if call[0] == "POST" and f"{issue.id}/transitions" in call[1]]
    assert len(moves) == 2
    assert TOKEN not in site.output() + site.run_log()


def test_a_question_waits_for_an_answer_of_somebody_who_counts(jira: JiraFake, site: Project) -> None:
    """Neither our own comments nor a customer's wake a parked issue; that of an account of the site does."""
    issue = jira.store.add("Choose", "In Progress")
    issue_id = give(site, issue, ASKS)
    service = site.start()
    service.until(lambda: issue_id in site.parked())
    jira.store.comment(issue, "Take mine!", CUSTOMER)
    second = jira.store.add("Another")
    give(site, second, REVIEW)
    service.until(lambda: second.status == "In Review")
    assert site.parked()[issue_id] == ("signal", "which database?")
    assert len(site.runs(issue_id)) == 1
    jira.store.comment(issue, "The second one.", ANN)
    service.until(lambda: len(site.runs(issue_id)) == 2)
    assert service.stop() == 0
    assert [line for line in site.diary() if line.startswith("run")] == ["run 1", "run 2"]


def test_an_issue_that_leaves_the_project_stops_its_run(jira: JiraFake, site: Project) -> None:
    issue = jira.store.add()
    issue_id = give(site, issue, f"{says('begun')}; exec sleep 600")
    service = site.start()
    service.until(lambda: "begun" in site.diary())
    jira.store.to_project(issue, "OTHER")
    service.until(lambda: site.runs(issue_id))
    assert site.runs(issue_id)[0].status == "cancelled"
    assert service.stop() == 0


def test_an_agent_asks_jira_through_the_broker(jira: JiraFake, site: Project) -> None:
    """The key stays with the orchestrator."""
    site.workflow(settings(jira, tools={"credentials": "broker"}))
    issue = jira.store.add("Look it up", description=paragraph("See the comments."))
    jira.store.comment(issue, "It is **red**.", ANN)
    order = {"operation": "fetch_comments", "issue_id": str(issue.id)}
    steps = [["call", "tracker_api", order], ["shell", "env; cat .sortie/*.json"]]
    give(site, issue, f"{sys.executable} {AGENT} {shlex.quote(json.dumps(steps))}; {REVIEW}")
    site.run()
    answer, surroundings = (json.loads(line) for line in site.diary())
    assert answer["success"], answer
    assert "It is **red**." in json.dumps(answer)
    assert TOKEN not in json.dumps(surroundings)
    assert issue.status == "In Review"


def ends_without_warning(site: Project, jira: JiraFake, where: str, *, after: bool) -> threading.Event:
    """Kill the service in the middle of a write, before or after Jira carried it out."""
    release = threading.Event()
    reached = threading.Event()

    def deed(exchange: Any) -> None:
        reached.set()
        waits(release)(exchange)
        drops(exchange)

    jira.fault(where, deed, after=after)
    service = site.start()
    service.until(reached.is_set)
    service.kill()
    release.set()
    return release


@pytest.mark.parametrize("after", [False, True], ids=["before it happened", "after it happened"])
def test_killed_at_the_last_comment_there_is_one_and_the_hand_off_is_made(
    jira: JiraFake, site: Project, *, after: bool
) -> None:
    site.workflow(settings(jira, tracker={**settings(jira)["tracker"], "comments": {"on_completion": True}}))
    issue = jira.store.add()
    issue_id = give(site, issue, f"{says('run')}; {REVIEW}")
    ends_without_warning(site, jira, f"POST .*/{issue_id}/comment", after=after)
    assert len(issue.comments) == int(after)
    site.run()
    assert (issue.status, len(issue.comments)) == ("In Review", 1)
    assert site.diary() == ["run"]
    planned = {effect.effect_id for effect in site.events(ev.EffectPlanned, issue_id) if effect.verb == "comment"}
    assert {*marks(issue)} == planned


@pytest.mark.parametrize("after", [False, True], ids=["before it happened", "after it happened"])
def test_killed_at_the_hand_off_it_is_made_once(jira: JiraFake, site: Project, *, after: bool) -> None:
    issue = jira.store.add("Do it", "In Progress")
    issue_id = give(site, issue, f"{says('run')}; {REVIEW}")
    ends_without_warning(site, jira, f"POST .*/{issue_id}/transitions", after=after)
    site.run()
    assert issue.status == "In Review"
    assert site.diary() == ["run"]
    assert len(jira.calls(f"POST .*/{issue_id}/transitions")) == (1 if after else 2)
    assert len(marks(issue)) == len({*marks(issue)}) == 2


@pytest.mark.parametrize("what", ["is_expired", "is_hidden"])
def test_lost_access_ends_no_run_and_frees_nothing(jira: JiraFake, site: Project, what: str) -> None:
    """A token that ended, a permission that was taken away: the agent goes on, what is parked stays so, and when
    there is access again all of it is as it was."""
    running, parked = jira.store.add("Run"), jira.store.add("Ask", "In Progress")
    gate = site.root / "gate"
    running_id = give(site, running, f"{says('begun')}; while [ ! -e {gate} ]; do sleep 0.1; done; {REVIEW}")
    parked_id = give(site, parked, f"{says('asks')}; {BLOCKED}")
    service = site.start()
    service.until(lambda: "begun" in site.diary() and parked_id in site.parked())
    service.until(lambda: running.status == "In Progress")
    setattr(jira, what, True)
    said = "does not accept the key" if what == "is_expired" else "shows us no project PROJ"
    service.until(lambda: said in site.output())
    before = len(jira.requests)
    service.until(lambda: len(jira.requests) > before + 8)
    assert site.runs(running_id) == []
    assert parked_id in site.parked()
    setattr(jira, what, False)
    gate.touch()
    service.until(lambda: running.status == "In Review")
    service.stop()
    assert sorted(site.diary()) == ["asks", "begun"]
    assert site.parked().keys() == {parked_id}


def test_a_move_that_the_workflow_does_not_have_is_told_to_people(jira: JiraFake, site: Project) -> None:
    """The hand-off fails; the issue is put aside with Jira's reason instead of being run again and again."""
    jira.store.moves = {"Todo": [], "In Progress": []}
    jira.permissions.discard("TRANSITION_ISSUES")
    issue = jira.store.add()
    issue_id = give(site, issue, f"{says('run')}; {REVIEW}")
    site.run()
    assert site.diary() == ["run"]
    said = site.notes() + json.dumps([effect.detail for effect in site.events(ev.EffectDone, issue_id)])
    assert "Jira offers no transition at all" in said


def test_doctor_tells_what_jira_lacks(jira: JiraFake, site: Project) -> None:
    jira.store.states.pop("In Review")
    jira.permissions.discard("ADD_COMMENTS")
    told = site.sortie("doctor", site.workflow_path.name)
    assert 'Jira knows no state "In Review"' in told.stdout, told.stdout + told.stderr
    assert '"Add comments"' in told.stdout
    assert TOKEN not in told.stdout + told.stderr
