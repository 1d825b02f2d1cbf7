"""A service killed at each of its writes to Jira: before it arrives, and after it was done but not yet answered.

The next start repairs or completes what was cut short: nothing is said twice, and every move is made.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from sortie.core import events as ev
from tests.e2e.jira_project import give, marks
from tests.e2e.jira_project import jira_site as jira_site
from tests.e2e.jira_project import project_on_jira as project_on_jira
from tests.e2e.project import Project
from tests.e2e.shell import BLOCKED, REVIEW, says
from tests.npm import TIME_TO_INSTALL
from tests.servers.jira_fake import JiraFake, drops, waits
from tests.servers.jira_store import StoredIssue

pytestmark = TIME_TO_INSTALL

WRITE = "POST .*/(transitions|comment)$"
# What an undisturbed run writes, in this order; a test below fails where that is no longer so.
HANDED_OVER = ("transitions", "comment", "transitions", "comment")
# Of a run that ends blocked.
BLOCKED_COMMENT = 3
LEFT_TO_A_PERSON = 3

both_sides = pytest.mark.parametrize("is_done", [False, True], ids=["not-done", "done"])


def writes(jira: JiraFake) -> list[str]:
    return [call.rpartition("/")[2] for call in jira.calls(WRITE)]


def kill_at(site: Project, jira: JiraFake, number: int, *, is_done: bool) -> None:
    """Start the service and kill it at this write, before or after Jira carried it out."""
    reached, release = threading.Event(), threading.Event()

    def deed(exchange: Any) -> None:
        reached.set()
        waits(release)(exchange)
        drops(exchange)

    jira.fault(WRITE, deed, after=is_done, spared=number - 1)
    service = site.start()
    service.until(reached.is_set)
    service.kill()
    release.set()


def assert_sound(site: Project, issue: StoredIssue) -> None:
    assert site.living() == []
    assert site.schedule().running == {}
    assert site.schedule().effects == {}
    found = [str(mark) for mark in marks(issue)]
    assert max(Counter(found).values()) == 1, "a comment is there twice"
    planned = {effect.effect_id for effect in site.events(ev.EffectPlanned) if effect.verb == "comment"}
    assert {*found} <= planned
    said = Counter(mark.rpartition(".")[2] for mark in found)
    assert said["completion"] == 1
    assert said["dispatch"] <= len({run.run_id for run in site.runs(str(issue.id))})


def test_the_writes_of_an_undisturbed_run_are_those_that_are_tried(jira: JiraFake, site: Project) -> None:
    issue = jira.store.add()
    give(site, issue, REVIEW)
    assert site.run() == 0
    assert writes(jira) == [*HANDED_OVER]
    assert_sound(site, issue)


@both_sides
@pytest.mark.parametrize("number", range(1, len(HANDED_OVER) + 1))
def test_killed_at_a_write_the_issue_is_handed_over_all_the_same(
    jira: JiraFake, site: Project, number: int, is_done: bool
) -> None:
    """A2O-08: in progress, begun, handed over, ended."""
    issue = jira.store.add()
    give(site, issue, f"{says('run')}; {REVIEW}")
    kill_at(site, jira, number, is_done=is_done)
    assert site.run() == 0
    assert issue.status == "In Review"
    is_cut_short = HANDED_OVER[number - 1] == "transitions" and not is_done
    assert writes(jira).count("transitions") == 2 + is_cut_short, "no move is made twice"
    assert_sound(site, issue)


@both_sides
def test_killed_at_the_last_comment_a_blocked_issue_stays_parked(
    jira: JiraFake, site: Project, is_done: bool
) -> None:
    """A2O-09: what it is compared with when it is looked at again has our own move in it."""
    issue = jira.store.add()
    issue_id = give(site, issue, BLOCKED)
    kill_at(site, jira, BLOCKED_COMMENT, is_done=is_done)
    assert site.run() == LEFT_TO_A_PERSON
    service = site.start()
    before = len(jira.calls("POST .*/search/jql"))
    service.until(lambda: len(jira.calls("POST .*/search/jql")) > before + 3)
    assert service.stop() == 0
    assert len(site.runs(issue_id)) == 1
    assert site.parked()[issue_id][0] == "signal"
    assert_sound(site, issue)
