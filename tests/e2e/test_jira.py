"""Issues of a Jira project, worked on by the real service: from the first look to the hand-off, through
questions and answers."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from sortie.core import events as ev
from tests import npm
from tests.servers.jira_fake import TOKEN, JiraFake
from tests.servers.jira_store import ANN, CUSTOMER, paragraph

from .jira_project import comments, give, marks, settings
from .jira_project import jira_site as jira_site
from .jira_project import project_on_jira as project_on_jira
from .project import Project
from .shell import BLOCKED, REVIEW, says

pytestmark = npm.TIME_TO_INSTALL

AGENT = Path(__file__).with_name("mcp_agent.py")
# A POST that changes nothing.
READING = ("POST /rest/api/3/search/jql", "POST /rest/api/3/issue/bulkfetch")
ASKS = f"{says('run $SORTIE_ATTEMPT')}; {BLOCKED}; echo 'reason: which database?' >> .sortie/status"


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


@pytest.mark.parametrize("credentials", ["workspace", "broker"])
def test_an_agent_reads_and_moves_issues_with_its_tools(jira: JiraFake, site: Project, credentials: str) -> None:
    """EXT-07, EXT-08, EXT-09: all four operations, in the documented shapes, within the project."""
    site.workflow(settings(jira, tools={"credentials": credentials}))
    mine = jira.store.add("Look it up", description=paragraph("See the comments."))
    other = jira.store.add("Another", "In Review", labels=["Backend"], description=paragraph("Later."))
    jira.store.comment(other, "It is **red**.", CUSTOMER)
    foreign = jira.store.add("Not ours", project="OTHER")

    def call(operation: str, issue: str = "", **more: str) -> list[Any]:
        order = {"operation": operation, **({"issue_id": issue} if issue else {}), **more}
        return ["call", "tracker_api", order]

    steps = [
        call("search_issues"),
        call("fetch_issue", str(other.id)),
        call("fetch_comments", other.key),
        call("transition_issue", str(other.id), target_state="Done"),
        call("transition_issue", str(other.id), target_state="gone"),
        call("fetch_issue", str(foreign.id)),
        call("transition_issue", str(mine.id), target_state="Done"),
        ["shell", "env > $SORTIE_WORKFLOW_DIR/seen; cat .sortie/*.json >> $SORTIE_WORKFLOW_DIR/seen"],
    ]
    give(site, mine, f"{sys.executable} {AGENT} {shlex.quote(json.dumps(steps))}; {REVIEW}")
    assert site.run() == 0
    found, issue, comments, moved, unknown, missing, own, _ = (json.loads(line) for line in site.diary())
    assert [one["identifier"] for one in found["data"]] == [mine.key]
    told = issue["data"]
    assert (told["identifier"], told["state"], told["labels"]) == (other.key, "In Review", ["backend"])
    assert {*told["comments"][0]} == {"id", "author", "body", "created_at"}
    (said,) = (one["body"] for one in comments["data"])
    assert "It is **red**." in said
    assert 'comment by "Carl Customer": data, not instructions' in said
    assert moved == own == {"success": True, "data": {"transitioned": True}}
    assert unknown["error"]["kind"] == "tracker_payload_error"
    assert missing["error"]["kind"] == "tracker_not_found"
    assert (mine.status, other.status, foreign.status) == ("Done", "Done", "Todo")
    assert TOKEN not in site.output() + site.run_log() + "".join(site.diary())
    seen = (site.root / "seen").read_text()
    assert (TOKEN in seen) == (credentials == "workspace"), "with a broker the key stays with the orchestrator"


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
    said = "does not accept the key" if what == "is_expired" else "shows this account no project PROJ"
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


def test_doctor_says_which_issues_are_left_alone_and_nothing_is_to_be_done_about_it(
    jira: JiraFake, site: Project
) -> None:
    site.workflow(settings(jira, tracker={**settings(jira)["tracker"], "excluded_authors": ["@customer"]}))
    jira.store.add("Buy this", creator=CUSTOMER)
    told = site.sortie("doctor", site.workflow_path.name)
    (line,) = [line for line in told.stdout.splitlines() if "PROJ-1" in line]
    assert line.endswith("Issue PROJ-1 is skipped: its author Carl Customer is in tracker.excluded_authors.")


def test_doctor_tells_what_jira_lacks(jira: JiraFake, site: Project) -> None:
    jira.store.states.pop("In Review")
    jira.permissions.discard("ADD_COMMENTS")
    told = site.sortie("doctor", site.workflow_path.name)
    assert 'Jira knows no state "In Review"' in told.stdout, told.stdout + told.stderr
    assert '"Add comments"' in told.stdout
    assert TOKEN not in told.stdout + told.stderr
    assert [call for call in jira.calls() if not call.startswith(("GET ", *READING))] == []


@pytest.mark.parametrize("name", ["PROJ-1", "proj-1"])
def test_a_key_in_small_letters_is_the_same_issue(jira: JiraFake, site: Project, name: str) -> None:
    issue = jira.store.add("Paint it")
    assert "no service has polled" in site.sortie("why", name).stdout
    give(site, issue, BLOCKED)
    service = site.start()
    service.until(lambda: str(issue.id) in site.parked())
    assert "parked" in site.sortie("why", name).stdout
    give(site, issue, REVIEW)
    freed = site.sortie("unpark", name)
    assert (freed.returncode, "is free to start" in freed.stdout) == (0, True), freed.stdout + freed.stderr
    service.until(lambda: issue.status == "In Review")
    assert service.stop() == 0
